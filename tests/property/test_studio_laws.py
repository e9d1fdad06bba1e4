"""Laws of what the studio shows and does: level of detail, blocks, snapping, rays, charts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from handful.apps.studio._saving import picture
from handful.apps.studio._stage import Contents, blocks
from handful.checks import Check, PosedStep
from handful.clouds import Box, LevelOfDetail, PointCloud, standing_in
from handful.demos import Action, gripper_named
from handful.errors import OptionError
from handful.policy import ScenePoints, shifted_pose, snapped
from handful.render import box_mesh
from handful.viz import Curve, page_of_scene, picture_of_curves
from samples import pose_at, small_cloud, thin_sample

HAND = gripper_named("simulated")
seeds = st.integers(0, 10_000)


def surface(seed: int, count: int) -> PointCloud:
    """A wavy surface of random density, somewhere."""
    rng = np.random.default_rng(seed)
    flat = rng.uniform(-1, 1, (count, 2)) * rng.uniform(0.1, 1.0) ** rng.uniform(0.2, 2, (count, 1))
    height = 0.1 * np.sin(5 * flat.sum(1))
    return PointCloud(np.column_stack([flat, height]) + rng.uniform(-3, 3, 3))


@given(seeds, st.integers(2, 3000), st.integers(2, 2000))
def test_few_points_show_a_cloud_and_are_points_of_it(seed: int, count: int, most: int):
    cloud = surface(seed, count)
    levels = LevelOfDetail(cloud, most)
    assert len(levels.overview) <= most
    assert len(np.unique(levels.overview)) == len(levels.overview)
    if count <= most:
        assert np.array_equal(levels.overview, np.arange(count))
    elif most > 20:
        gap = cKDTree(cloud.points[levels.overview]).query(cloud.points)[0]
        assert gap.max() <= levels.cell * np.sqrt(3) * 1.001


@given(seeds, st.floats(0.01, 0.5))
def test_around_a_place_every_point_is_shown(seed: int, radius: float):
    cloud = surface(seed, 2000)
    levels = LevelOfDetail(cloud, 300)
    center = cloud.points[seed % 2000].astype(np.float64)
    shown = set(levels.shown(center, radius).tolist())
    inside = np.linalg.norm(cloud.points - center, axis=1) <= radius * 0.999
    assert set(np.flatnonzero(inside).tolist()) <= shown
    assert set(levels.overview.tolist()) <= shown
    few = levels.near(center, radius, 10)
    assert len(few) <= 10


@given(seeds, st.integers(2, 800))
def test_blocks_hold_every_point_once_and_keep_half_precision_fine(seed: int, count: int):
    cloud = surface(seed, count)
    found = blocks(cloud.points)
    assert sorted(np.concatenate([some for _, _, some in found]).tolist()) == list(range(count))
    for _, center, some in found:
        offset = cloud.points[some].astype(np.float64) - center
        back = offset.astype(np.float16).astype(np.float64)
        assert np.abs(back - offset).max() < 2e-4 * float(cloud.extent.max())


@given(seeds, st.floats(-1.0, 1.0), st.floats(0.0, 0.0015))
def test_what_stands_on_a_table_is_all_of_it_and_nothing_else(
    seed: int, height: float, noise: float
):
    rng = np.random.default_rng(seed)
    table = np.column_stack([rng.uniform(-0.3, 0.3, (4000, 2)), noise * rng.normal(size=4000)])
    table = table[np.abs(table[:, 2]) < 0.003]
    thing = rng.uniform([-0.05, -0.05, 0.01], [0.05, 0.05, 0.08], (300, 3))
    points = np.concatenate([table, thing, thing + np.array([0.25, 0.0, 0.0])])
    points[:, 2] += height
    box = Box((-0.1, -0.1, height - 0.05), (0.1, 0.1, height + 0.15))
    found = standing_in(box, points)
    assert found[len(table) : len(table) + 300].all()
    assert found.sum() == 300
    far = Box((-0.1, -0.1, height + 1.0), (0.1, 0.1, height + 1.2))
    assert not standing_in(far, points).any()


def test_points_of_a_usual_scene_are_within_a_fiftieth_of_a_millimetre():
    rng = np.random.default_rng(0)
    points = rng.uniform(-0.5, 0.5, (5000, 3)) + 3.0
    for _, center, some in blocks(points):
        offset = points[some] - center
        assert np.abs(offset.astype(np.float16) - offset).max() < 2e-5


@given(seeds)
def test_snapping_brings_the_contact_point_onto_the_surface_against_its_normal(seed: int):
    rng = np.random.default_rng(seed)
    xy = rng.uniform(-0.1, 0.1, (4000, 2))
    slope = rng.uniform(-0.5, 0.5, 2)
    points = ScenePoints(np.column_stack([xy, xy @ slope]))
    pose = pose_at(*rng.uniform(-0.05, 0.05, 2), 0.3)
    there = snapped(pose, HAND, points, depth=0.0) @ HAND.T_gripper_contact
    normal = np.array([-slope[0], -slope[1], 1.0]) / np.linalg.norm([*slope, 1.0])
    assert abs(there[2, 3] - there[:2, 3] @ slope) < 1e-6
    assert np.allclose(there[:3, 2], -normal, atol=1e-3)
    assert np.allclose(there[:3, :3].T @ there[:3, :3], np.eye(3), atol=1e-9)
    assert np.isclose(np.linalg.det(there[:3, :3]), 1.0)
    # The fingers open as they did, as far as the slope allows.
    assert there[:3, 0] @ (pose @ HAND.T_gripper_contact)[:3, 0] > 0.8


@given(seeds)
def test_a_pose_that_is_snapped_stays_where_it_is(seed: int):
    rng = np.random.default_rng(seed)
    xy = rng.uniform(-0.1, 0.1, (3000, 2))
    points = ScenePoints(np.column_stack([xy, 0.2 * xy[:, 0]]))
    once = snapped(pose_at(0.0, 0.01, 0.3), HAND, points, depth=0.0)
    assert np.allclose(snapped(once, HAND, points, depth=0.0), once, atol=1e-6)


@given(seeds)
def test_snapping_across_keeps_the_approach_and_puts_a_finger_on_each_side_of_a_wall(seed: int):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, np.pi)
    normal, along = np.array([np.cos(angle), np.sin(angle), 0]), np.array([0, 0, 1.0])
    wall = np.outer(rng.uniform(-0.1, 0.1, 4000), np.cross(normal, along))
    points = ScenePoints(wall + np.outer(rng.uniform(0, 0.1, 4000), along))
    pose = pose_at(0.0, 0.0, 0.4)
    there = snapped(pose, HAND, points, np.array([0.0, 0, 0.1]), depth=0.01, across=True)
    there = there @ HAND.T_gripper_contact
    assert np.allclose(there[:3, 2], [0, 0, -1])
    assert abs(there[:3, 0] @ normal) > 0.99
    assert np.allclose(there[:3, 3], [0, 0, 0.09])


def test_shifts_turn_about_the_contact_point():
    pose = pose_at(0.1, 0.2, 0.3)
    turned = shifted_pose(pose, HAND, turn=(0.1, -0.2, 0.3))
    contact = HAND.T_gripper_contact
    assert np.allclose((turned @ contact)[:3, 3], (pose @ contact)[:3, 3])
    assert not np.allclose(turned[:3, :3], pose[:3, :3])


def test_a_ray_meets_the_first_point_in_its_way():
    points = ScenePoints(np.array([[0.0, 0, 0], [0, 0, 0.1], [0.2, 0, 0.5], [0, 0, 2.0]]))
    assert np.allclose(points.hit(np.array([0.0, 0, 1.0]), np.array([0.0, 0, -3.0])), [0, 0, 0.1])
    assert points.hit(np.array([0.5, 0, 1.0]), np.array([0.0, 0, -1.0])) is None
    with pytest.raises(OptionError, match="not 0"):
        points.hit(np.zeros(3), np.zeros(3))


def test_checks_while_dragging_say_what_the_checks_of_the_set_say():
    step = thin_sample()[0].steps[0]
    posed = PosedStep.of(step.scene, step.grasp, step.action)
    gripper = thin_sample().gripper
    assert not any(one.doubtful for one in posed.measures(step.targets[0], gripper))
    away = step.targets[0].copy()
    away[2, 3] += 0.3
    wrong = {one.check for one in posed.measures(away, gripper, thorough=False) if one.wrong}
    assert Check.CONTACT in wrong
    inside = step.targets[0].copy()
    inside[2, 3] -= 0.1
    wrong = {one.check for one, _ in posed.told(inside, gripper) if one.wrong}
    assert wrong & {Check.HAND, Check.BELOW}
    held = posed.changed(None, Action.PLACE)
    assert Check.NO_GRASP in {one.check for one in held.measures(away, gripper) if one.wrong}


def test_a_page_of_a_scene_holds_everything_and_calls_nobody():
    cloud = small_cloud(count=100)
    page = page_of_scene([cloud], [box_mesh((0, 0, 0), (0.1, 0.1, 0.1), (1, 0, 0))], "<b>&")
    assert "http" not in page
    assert "<b>" not in page
    assert '"count": 100' in page
    assert "<img" not in page
    curves = picture_of_curves([Curve("loss", [2.0, 1.0], (0.0, 0.0, 1.0))], 2)
    assert (
        page_of_scene([cloud], [], "", [curves, curves]).count('src="data:image/png;base64,') == 2
    )
    with pytest.raises(OptionError, match="no cloud"):
        page_of_scene([], [])


def test_a_picture_of_a_room_has_the_curves_beside_the_scene():
    cloud = small_cloud(count=100)
    curves = picture_of_curves([Curve("loss", [2.0, 1.0], (0.0, 0.0, 1.0))], 2)
    alone, both = (picture(Contents((cloud,), (), beside)) for beside in ((), (curves, curves)))
    assert both.size == (alone.width + curves.width, alone.height)
    drawn = np.asarray(both)
    assert np.array_equal(drawn[:, : alone.width], np.asarray(alone.convert("RGB")))
    beside = drawn[curves.height : 2 * curves.height, alone.width :]
    assert np.array_equal(beside, np.asarray(curves.convert("RGB")))


@pytest.mark.parametrize("values", [[], [1.0], [np.nan, np.inf], [3.0, np.nan, 1.0], [2.0] * 50])
def test_curves_are_drawn_whatever_was_measured(values: list[float]):
    image = picture_of_curves([Curve("loss", values, (0.0, 0.0, 1.0))], 50)
    assert image.size == (360, 190)


def test_a_curve_is_seen():
    falling = picture_of_curves([Curve("loss", list(np.linspace(3, 1, 50)), (0, 0, 1))], 50)
    flat = picture_of_curves([Curve("loss", [2.0] * 50, (0, 0, 1))], 50)
    assert np.abs(np.asarray(falling, dtype=int) - np.asarray(flat, dtype=int)).sum() > 10_000
