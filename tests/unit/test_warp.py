"""Warped demonstrations stay true: what touches, lies flat or stands upright still does."""

from dataclasses import replace

import numpy as np
import pytest

from equivariance import random_poses
from handful.clouds import PointCloud
from handful.demos import Action, Step
from handful.errors import OptionError
from handful.learning.variation import Warp, WarpMap, warped_step
from samples import small_cloud

STRONG = Warp(size=0.5, proportion=0.4, profile=0.6)
SEEDS = range(8)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def drawn(seed: int, warp: Warp = STRONG) -> WarpMap:
    """A map about a focus that is not the middle, upwards and along anything."""
    turn = random_poses(1, seed)[0, :3, :3].numpy()
    focus, middle = rng(seed).uniform(-0.1, 0.1, (2, 3))
    return warp.draw(focus, middle, turn[2], rng(seed).normal(size=3), rng(seed))


def jacobian(function, at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Derivatives [outputs, inputs] by central differences."""
    shifts = step * np.eye(3)
    return ((function(at + shifts) - function(at - shifts)) / (2 * step)).T


def assert_keeps_directions(matrix: np.ndarray, up: np.ndarray) -> None:
    """Upwards goes upwards, what is horizontal stays horizontal, and nothing is sheared."""
    assert np.isfinite(matrix).all()
    rise = up @ matrix @ up
    np.testing.assert_allclose(matrix @ up, rise * up, atol=1e-6)
    np.testing.assert_allclose(up @ matrix, rise * up, atol=1e-6)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-6)
    assert np.linalg.eigvalsh(matrix).min() > 0


# --- the map ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_the_focus_stays_and_other_points_do_not(seed):
    warp = drawn(seed)
    np.testing.assert_allclose(warp(warp.focus[None])[0], warp.focus, atol=1e-12)
    others = warp.focus + rng(1).uniform(-0.1, 0.1, (20, 3))
    assert np.linalg.norm(warp(others) - others, axis=1).max() > 5e-3


@pytest.mark.parametrize("seed", SEEDS)
def test_what_lies_flat_still_does(seed):
    warp = drawn(seed)
    points = rng(2).uniform(-0.3, 0.3, (200, 3))
    for height in (-0.1, 0.0, 0.07):
        flat = points + (height - points @ warp.up)[:, None] * warp.up
        assert np.ptp(warp(flat) @ warp.up) < 1e-12


@pytest.mark.parametrize("seed", SEEDS)
def test_heights_keep_their_order_and_their_proportions(seed):
    """A profile acts across only: along upwards, all lengths grow by one factor."""
    warp = drawn(seed)
    points = rng(3).uniform(-0.3, 0.3, (200, 3))
    before, after = (points - warp.focus) @ warp.up, (warp(points) - warp.focus) @ warp.up
    factor = after / before
    assert factor[0] > 0
    np.testing.assert_allclose(factor, factor[0], rtol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_stands_upright_still_does(seed):
    """Without a profile every upright line, with one the line through the middle: an axis."""
    heights = np.linspace(-0.2, 0.2, 30)[:, None]
    straight, bent = drawn(seed, replace(STRONG, profile=0.0)), drawn(seed)
    for warp, foot in ((straight, rng(4).uniform(-0.2, 0.2, 3)), (bent, bent.middle)):
        line = warp(foot + heights * warp.up)
        across = line - (line @ warp.up)[:, None] * warp.up
        assert np.ptp(across, axis=0).max() < 1e-12
    off_axis = bent.focus + 0.1 * np.cross(bent.up, bent.focus - bent.middle)
    line = replace(bent, profile=0.3)(off_axis + heights * bent.up)
    across = line - (line @ bent.up)[:, None] * bent.up
    assert np.ptp(across, axis=0).max() > 1e-3, "a profile bends what is off the axis"


@pytest.mark.parametrize("seed", SEEDS)
def test_surfaces_keep_their_directions_at_the_focus(seed):
    warp = drawn(seed)
    there = jacobian(warp, warp.focus)
    assert_keeps_directions(there, warp.up)
    np.testing.assert_allclose(there, warp.matrix, atol=1e-6)


def test_a_profile_with_a_slope_at_the_focus_fails_the_law():
    """The broken control, and that the checker refuses a NaN."""
    warp = drawn(0)

    def sloped(points: np.ndarray) -> np.ndarray:
        height = (points - warp.focus) @ warp.up / warp.reach
        offset = (points - warp.middle) @ warp.matrix
        rise = (offset @ warp.up)[:, None] * warp.up
        return np.exp(warp.profile * height)[:, None] * (offset - rise) + rise

    with pytest.raises(AssertionError):
        assert_keeps_directions(jacobian(sloped, warp.focus), warp.up)
    with pytest.raises(AssertionError):
        assert_keeps_directions(np.full((3, 3), np.nan), warp.up)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_profile_is_one_at_the_focus_and_its_sign_says_wide_or_narrow_elsewhere(sign):
    up, focus = np.array([0.0, 0.0, 1.0]), np.array([0.02, 0.0, 0.1])
    warp = WarpMap(np.eye(3), sign * 0.4, 0.05, up, focus, np.zeros(3))

    def width(height: float) -> float:
        left, right = warp(np.array([[-0.03, 0.0, height], [0.03, 0.0, height]]))
        return float(np.linalg.norm(right - left) / 0.06)

    assert width(0.1) == pytest.approx(1.0, abs=1e-12)
    assert width(0.05) == width(0.15) == pytest.approx(np.exp(sign * 0.2))
    assert width(-100.0) == pytest.approx(np.exp(sign * 0.4), rel=1e-5)
    assert (np.diff([width(0.1 - h) for h in (0.0, 0.03, 0.06, 0.2)]) * sign > 0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_poses_go_along_with_the_point_that_they_hold(seed):
    warp, tip = drawn(seed), np.array([0.0, 0.01, 0.15])
    poses = random_poses(5, seed, reach=0.1).numpy()
    after = warp.poses(poses, tip)
    held = poses[:, :3, :3] @ tip + poses[:, :3, 3]
    holds = after[:, :3, :3] @ tip + after[:, :3, 3]
    np.testing.assert_allclose(holds, warp(held), atol=1e-12)
    np.testing.assert_array_equal(after[:, :3, :3], poses[:, :3, :3])
    wrong = warp.poses(poses, np.zeros(3))
    strayed = wrong[:, :3, :3] @ tip + wrong[:, :3, 3] - warp(held)
    assert np.linalg.norm(strayed, axis=1).max() > 5e-3, "the control holds something else"


def test_clouds_are_warped_point_by_point_and_keep_their_colours():
    warp, cloud = drawn(0), small_cloud()
    after = warp.cloud(cloud)
    np.testing.assert_allclose(after.points, warp(cloud.points.astype(np.float64)), atol=1e-6)
    np.testing.assert_array_equal(after.require_colors(), cloud.require_colors())
    assert after.points.dtype == cloud.points.dtype


# --- drawing ------------------------------------------------------------------------------------


def test_factors_are_within_what_was_asked_for_and_fill_it():
    up, along = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.3])
    warp = Warp(size=0.3, proportion=0.2)
    maps = [warp.draw(np.zeros(3), np.zeros(3), up, along, rng(seed)) for seed in range(300)]
    logs = np.log([np.diag(one.matrix) for one in maps])
    for one in maps:
        np.testing.assert_allclose(one.matrix, np.diag(np.diag(one.matrix)), atol=1e-12)
        assert one.profile == 0
    for axis, most in ((0, 0.4), (1, 0.4), (2, 0.5)):
        assert 0.8 * most < np.abs(logs[:, axis]).max() <= most
    assert np.abs(logs[:, 0] - logs[:, 1]).max() > 0.1, "proportions across differ"


def test_across_is_along_the_given_direction_wherever_that_points():
    """A gripper's opening axis stays square to the walls that it closes on."""
    for seed in SEEDS:
        turn = random_poses(1, seed)[0, :3, :3].numpy()
        up, along = turn[2], turn[0] + 0.4 * turn[2]
        warp = Warp(proportion=0.4).draw(np.zeros(3), np.zeros(3), up, along, rng(seed))
        assert_keeps_directions(warp.matrix, up)
        for axis in turn:
            np.testing.assert_allclose(np.cross(warp.matrix @ axis, axis), 0.0, atol=1e-12)
        upwards = Warp(proportion=0.4).draw(np.zeros(3), np.zeros(3), up, up, rng(seed))
        assert_keeps_directions(upwards.matrix, up)


def test_the_same_seed_gives_the_same_warp():
    one, again, other = drawn(3), drawn(3), drawn(4)
    np.testing.assert_array_equal(one.matrix, again.matrix)
    assert (one.profile, one.reach) == (again.profile, again.reach)
    assert not np.allclose(one.matrix, other.matrix)


def test_no_warp_is_no_change_and_nonsense_is_refused():
    points = rng(5).uniform(-0.3, 0.3, (50, 3))
    np.testing.assert_allclose(drawn(0, Warp())(points), points, atol=1e-12)
    for name in ("size", "proportion", "profile"):
        for wrong in (-0.1, 1.1, float("nan")):
            with pytest.raises(OptionError, match=rf"warp {name} is {wrong}: need 0 to 1"):
                Warp(**{name: wrong})


# --- steps --------------------------------------------------------------------------------------


def pose(rotation, position):
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = rotation, position
    return matrix


TOUCHED = np.array([0.1, 0.05, 0.0])


def table_and_box(turn: np.ndarray) -> tuple[Step, np.ndarray]:
    """A box held upside down on a table, all of it turned; and where its middle touches."""
    table = np.column_stack([rng().uniform(-0.3, 0.3, (2000, 2)), np.zeros(2000)])
    box = rng(1).uniform([0.07, 0.03, 0.0], [0.13, 0.07, 0.12], (300, 3))
    under = np.column_stack([rng(2).uniform([0.07, 0.03], [0.13, 0.07], (100, 2)), np.zeros(100)])
    table, box = np.vstack([table, under]), np.vstack([box, under])
    target = pose(turn @ np.diag([1.0, -1.0, -1.0]), turn @ [0.1, 0.05, 0.15])
    scene = PointCloud(table @ turn.T, dtype=np.float64)
    grasp = PointCloud(box @ turn.T, dtype=np.float64).transformed(np.linalg.inv(target))
    step = Step("put it there", Action.PLACE, scene, target[None], grasp)
    return step, turn @ TOUCHED


def held_at_target(step: Step) -> np.ndarray:
    assert step.grasp is not None
    return step.grasp.transformed(step.targets[0]).points


@pytest.mark.parametrize("seed", SEEDS)
def test_what_touched_still_touches_and_what_stood_still_stands(seed):
    turn = random_poses(1, seed)[0, :3, :3].numpy()
    step, focus = table_and_box(turn)
    warp = STRONG.draw(focus, focus, turn[:, 2], turn[:, 0], rng(seed))
    after = warped_step(step, warp)
    np.testing.assert_allclose(after.targets, step.targets, atol=1e-12)
    np.testing.assert_allclose(after.scene.points[-100:], held_at_target(after)[-100:], atol=1e-9)
    np.testing.assert_allclose((after.scene.points @ turn)[:, 2], 0.0, atol=1e-9)
    assert (held_at_target(after) @ turn)[:, 2].min() > -1e-9
    assert np.abs(held_at_target(after) - held_at_target(step)).max() > 5e-3


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_held_may_be_warped_besides_and_touches_with_the_same_face(seed):
    turn = random_poses(1, seed)[0, :3, :3].numpy()
    step, focus = table_and_box(turn)
    joint = Warp(0.2, 0.2).draw(focus, focus, turn[:, 2], turn[:, 0], rng(seed))
    middle = held_at_target(step).mean(axis=0)
    besides = STRONG.draw(focus, middle, turn[:, 2], turn[:, 0], rng(seed + 100))
    together, after = warped_step(step, joint), warped_step(step, joint, besides)
    np.testing.assert_array_equal(after.scene.points, together.scene.points)
    heights = (held_at_target(after) @ turn)[:, 2]
    np.testing.assert_allclose(heights[-100:], 0.0, atol=1e-9)
    assert heights.min() > -1e-9
    assert np.abs(held_at_target(after) - held_at_target(together)).max() > 5e-3


def test_another_focus_and_slanted_axes_fail_the_laws():
    """The broken controls: about a point above the table, and about another axis than upwards."""
    step, focus = table_and_box(np.eye(3))
    up, along = np.eye(3)[2], np.eye(3)[0]
    straight = Warp(size=0.3).draw(focus, focus, up, along, rng())
    above = replace(straight, matrix=1.2 * np.eye(3), focus=focus + 0.05 * up)
    lifted = held_at_target(warped_step(step, straight, above))
    assert np.abs(lifted[-100:, 2]).max() > 5e-3
    slanted = np.eye(3) + 0.2 * np.outer([1.0, 0.0, 1.0], [1.0, 0.0, 1.0])
    after = warped_step(step, replace(straight, matrix=slanted))
    assert np.abs(after.scene.points[:, 2]).max() > 0.01


def test_other_targets_move_with_what_they_touch():
    points = rng(1).uniform(-0.1, 0.1, (50, 3))
    tip = np.array([0.0, 0.0, 0.15])
    targets = np.stack([pose(np.eye(3), where - tip) for where in points[:2]])
    scene = PointCloud(points, dtype=np.float64)
    warp = STRONG.draw(points[0], points[0], np.eye(3)[2], np.eye(3)[0], rng(2))
    after = warped_step(Step("take it", Action.PICK, scene, targets), warp)
    np.testing.assert_allclose(after.targets[:, :3, 3] + tip, after.scene.points[:2], atol=1e-9)
    np.testing.assert_array_equal(after.targets[:, :3, :3], targets[:, :3, :3])
    assert np.abs(after.targets[1] - targets[1]).max() > 1e-3
    assert after.grasp is None
