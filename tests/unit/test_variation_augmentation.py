"""Augmentations: seeded, of the stated size, and harmless when switched off."""

import numpy as np
import pytest
import torch
import trimesh

from handful.clouds import PointCloud
from handful.demos import Action, Step
from handful.errors import OptionError
from handful.geometry import check_pose, rotation_log
from handful.learning.variation import (
    Augmentation,
    drop_points,
    drop_view,
    fade_colors,
    jitter_colors,
    jitter_points,
    perturb_poses,
    some_sides,
    turn_colors,
    visible_from,
)
from samples import mug_sample, pose_at, small_cloud

EVERYTHING = Augmentation(0.1, 0.01, 0.002, 0.05, 0.3, 1.0)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_same_seed_gives_the_same_step():
    step = mug_sample()[0].step("place")
    one, again, other = (EVERYTHING.apply(step, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.targets, again.targets)
    assert np.array_equal(one.scene.points, again.scene.points)
    assert np.array_equal(one.grasp.require_colors(), again.grasp.require_colors())
    assert not np.array_equal(one.targets, other.targets)
    assert len(one.scene) != len(other.scene)


def test_no_augmentation_changes_nothing():
    step = mug_sample()[0].step("place")
    same = Augmentation().apply(step, 0)
    assert np.array_equal(same.targets, step.targets)
    assert np.array_equal(same.scene.points, step.scene.points)
    assert np.array_equal(same.grasp.require_colors(), step.grasp.require_colors())


def test_a_step_without_grasp_or_colour_is_fine():
    step = Step("take it", Action.PICK, small_cloud(colors=False), pose_at(0, 0, 0.2))
    changed = EVERYTHING.apply(step, 0)
    assert changed.task_step == step.task_step
    assert changed.grasp is None
    assert not changed.scene.has_colors


def test_pose_noise_has_the_stated_size():
    poses = np.repeat(pose_at(0.1, 0.2, 0.3)[None], 20_000, axis=0)
    moved = perturb_poses(poses, 0.05, 0.004, rng())
    check_pose(torch.from_numpy(moved), tolerance=1e-9)
    turns = rotation_log(torch.from_numpy(poses[:, :3, :3].transpose(0, 2, 1) @ moved[:, :3, :3]))
    np.testing.assert_allclose(turns.std(0), 0.05, rtol=0.03)
    np.testing.assert_allclose((moved - poses)[:, :3, 3].std(0), 0.004, rtol=0.03)


def test_point_and_colour_noise_have_the_stated_size():
    cloud = PointCloud(small_cloud(count=20_000).points, np.full((20_000, 3), 0.5))
    moved = jitter_points(cloud, 0.003, rng())
    np.testing.assert_allclose((moved.points - cloud.points).std(0), 0.003, rtol=0.03)
    change = jitter_colors(cloud, 0.02, rng()).require_colors() - 0.5
    np.testing.assert_allclose(change.std(0), 0.02, rtol=0.03)
    tints = [jitter_colors(cloud, 0.02, rng(i)).require_colors().mean(0) - 0.5 for i in range(200)]
    assert np.std(tints) == pytest.approx(0.02, rel=0.15)


def test_colours_stay_colours():
    colors = jitter_colors(small_cloud(count=2000), 0.8, rng()).require_colors()
    assert colors.min() == 0.0
    assert colors.max() == 1.0


def test_dropout_leaves_out_the_stated_share():
    cloud = small_cloud(count=1000)
    assert len(drop_points(cloud, 0.3, rng())) == 700
    assert len(drop_points(cloud, 0.9999, rng())) == 2
    assert drop_points(cloud, 0.0, rng()) is cloud


def test_a_sphere_hides_its_far_side():
    points = trimesh.creation.icosphere(subdivisions=4, radius=0.1).vertices
    seen = visible_from(PointCloud(points), np.array([0.0, 0.0, 1.0]))
    horizon = 0.1 * 0.1 / 1.0
    assert seen[points[:, 2] > horizon + 0.02].mean() > 0.99
    assert not seen[points[:, 2] < horizon - 0.02].any()


def test_a_dropped_view_takes_only_points_that_one_camera_saw():
    """On a sphere one camera sees less than a half, and no camera above sees the lower pole."""
    points = trimesh.creation.icosphere(subdivisions=4, radius=0.1).vertices
    sphere = PointCloud(points)
    lost_shares = []
    for seed in range(20):
        left = drop_view(sphere, 2, rng(seed))
        assert left.points[:, 2].min() == sphere.points[:, 2].min()
        kept = {tuple(point) for point in left.points.tolist()}
        lost = np.array([point for point in sphere.points.tolist() if tuple(point) not in kept])
        lost_shares.append(len(lost) / len(sphere))
        if len(lost) > 10:
            middle = lost.mean(axis=0)
            assert (lost @ middle).min() > 0, "all lost points are on one side"
    assert 0.1 < max(lost_shares) < 0.5


def test_some_sides_of_a_thick_plate_show_one_surface_and_some_the_other():
    flat = np.stack(np.meshgrid(*[np.linspace(-0.05, 0.05, 26)] * 2), -1).reshape(-1, 2)
    under, over = (np.pad(flat, ((0, 0), (0, 1)), constant_values=z) for z in (0.0, 0.011))
    plate = PointCloud(np.concatenate([under, over]).astype(np.float32))
    shares = np.array(
        [np.mean(some_sides(plate, rng(seed)).points[:, 2] > 0.005) for seed in range(60)]
    )
    assert 0.15 < (shares < 0.2).mean() < 0.6
    assert 0.15 < (shares > 0.8).mean() < 0.6
    assert ((shares > 0.2) & (shares < 0.8)).mean() > 0.1  # two cameras, one on either side


def test_a_flat_cloud_has_no_hidden_side():
    flat = PointCloud(np.pad(rng().uniform(0, 1, (3, 2)), ((0, 0), (0, 1))))
    assert visible_from(flat, np.array([0.0, 0.0, 0.0])).all()
    assert len(drop_view(flat, 3, rng())) >= 2


@pytest.mark.parametrize(
    "values",
    [{"target_angle": -1.0}, {"point_jitter": np.nan}, {"point_dropout": 1.0}, {"views": 1}],
)
def test_impossible_strengths_are_refused(values):
    with pytest.raises(OptionError, match="augmentation"):
        Augmentation(**values)


def test_turned_colours_keep_their_distances_and_lose_their_hue():
    """Dark colours near middle grey are not cut off, so an orthogonal matrix shows exactly."""
    near_grey = _near_grey()
    before = near_grey.require_colors() - 0.5
    means = []
    for seed in range(300):
        after = turn_colors(near_grey, rng(seed)).require_colors() - 0.5
        np.testing.assert_allclose(after @ after.T, before @ before.T, atol=1e-6)
        means.append(after[0] / np.linalg.norm(after[0]))
    assert np.linalg.norm(np.mean(means, axis=0)) < 0.2


def test_faded_colours_come_nearer_to_each_other_and_often_are_one():
    near_grey = _near_grey()
    before = _about_mean(near_grey)
    strengths, means, random = [], [], rng()
    for _ in range(1000):
        changed = fade_colors(near_grey, random)
        after = _about_mean(changed)
        strength = np.linalg.norm(after) / np.linalg.norm(before)
        np.testing.assert_allclose(after, strength * before, atol=1e-6)
        strengths.append(strength)
        means.append(changed.require_colors().mean(axis=0))
    np.testing.assert_allclose(np.quantile(strengths, [0.2, 0.5, 0.9]), [0, 0.25, 0.85], atol=0.1)
    assert np.ptp(means, axis=0).min() > 0.7


@pytest.mark.parametrize("name", ["recolor", "fade"])
def test_colours_change_when_asked_for(name):
    near_grey = _near_grey()
    always = Augmentation(**{name: 1.0}).apply_to_cloud(near_grey, 0)
    assert not np.allclose(always.require_colors(), near_grey.require_colors())
    never = Augmentation(**{name: 0.0}).apply_to_cloud(near_grey, 0)
    assert never.require_colors() == pytest.approx(near_grey.require_colors())


def _near_grey() -> PointCloud:
    cloud = small_cloud(count=200)
    return PointCloud(cloud.points, 0.4 + 0.2 * cloud.require_colors())


def _about_mean(cloud: PointCloud) -> np.ndarray:
    colors = cloud.require_colors().astype(np.float64)
    return colors - colors.mean(axis=0)
