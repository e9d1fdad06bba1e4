"""Stretched demonstrations stay true: what touches, lies flat or stands upright still does."""

import numpy as np
import pytest

from equivariance import random_poses
from handful.clouds import PointCloud
from handful.demos import Action, Step
from handful.errors import OptionError
from handful.learning.variation import Stretch, stretched


def pose(rotation, position):
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = rotation, position
    return matrix


def table_and_box(turn: np.ndarray) -> tuple[Step, np.ndarray]:
    """A box held upside down over a table's point, all of it turned; and that point."""
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.uniform(-0.3, 0.3, (4000, 2)), np.zeros(4000)])
    box = rng.uniform([0.07, 0.03, 0.0], [0.13, 0.07, 0.12], (500, 3))
    target = pose(turn @ np.diag([1.0, -1.0, -1.0]), turn @ [0.1, 0.05, 0.15])
    grasp = PointCloud(box @ turn.T).transformed(np.linalg.inv(target))
    step = Step("place", Action.PLACE, PointCloud(table @ turn.T), target[None], grasp)
    return step, turn @ np.array([0.1, 0.05, 0.0])


@pytest.mark.parametrize("seed", range(5))
def test_what_touches_and_stands_still_does(seed):
    turn = random_poses(1, seed)[0, :3, :3].numpy()
    step, focus = table_and_box(turn)
    after = Stretch(0.3).apply(step, focus, np.random.default_rng(seed))
    np.testing.assert_array_equal(after.targets, step.targets)
    assert after.grasp is not None
    table = after.scene.points @ turn
    np.testing.assert_allclose(table[:, 2], 0.0, atol=1e-6)
    held = after.grasp.transformed(after.targets[0]).points @ turn
    before = step.grasp.transformed(step.targets[0]).points @ turn
    across = (held - [0.1, 0.05, 0.0])[:, :2] / (before - [0.1, 0.05, 0.0])[:, :2]
    along = held[:, 2] / before[:, 2]
    np.testing.assert_allclose(across, across[0, 0], rtol=1e-2)
    np.testing.assert_allclose(along, along[0], rtol=1e-2)
    for factor in (across[0, 0], along[0]):
        assert 0.7 < factor < 1.4
        assert abs(factor - 1.0) > 1e-3


def test_other_targets_move_with_what_they_touch():
    points = np.random.default_rng(1).uniform(-0.1, 0.1, (50, 3)).astype(np.float32)
    tip = np.array([0.0, 0.0, 0.15])
    at = [points[0].astype(np.float64), points[1].astype(np.float64)]
    targets = np.stack([pose(np.eye(3), where - tip) for where in at])
    matrix = np.diag([1.2, 1.2, 0.8])
    after = stretched(Step("pick", Action.PICK, PointCloud(points), targets), matrix, at[0])
    for number in (0, 1):
        tips = after.targets[number, :3, 3] + tip
        np.testing.assert_allclose(tips, after.scene.points[number], atol=1e-6)
    np.testing.assert_array_equal(after.targets[:, :3, :3], targets[:, :3, :3])
    assert after.grasp is None


def test_a_stretch_that_bends_the_table_fails_the_law():
    """The broken control: another axis than the table's normal, about another point."""
    turn = random_poses(1, 0)[0, :3, :3].numpy()
    step, focus = table_and_box(turn)
    slanted = np.eye(3) + 0.2 * np.outer([1.0, 0.0, 1.0], [1.0, 0.0, 1.0])
    after = stretched(step, turn @ slanted @ turn.T, focus)
    assert np.abs(after.scene.points @ turn)[:, 2].max() > 0.01


def test_no_stretch_is_no_change_and_nonsense_is_refused():
    step, focus = table_and_box(np.eye(3))
    assert Stretch().apply(step, focus, np.random.default_rng(0)) is step
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(OptionError, match="stretch is"):
            Stretch(wrong)
