"""What demonstrations show to Neural Descriptor Fields: the object by itself, and the target.

No demonstration says which points are the object's: they are those that are gone after the pick.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree

from handful.baselines.ndf._registration import standing_pose
from handful.clouds import PointCloud
from handful.demos import Demonstration, DemoSet
from handful.errors import DemoError
from handful.policy import without_hand

GONE = 0.004
"""Metres: where nothing is nearer than this in the next step's scene, something was taken away."""
HELD = 0.012
"""Metres between points of the object in the hand and those that were seen of it before."""
FEWEST = 50
"""Points of an object or a target."""
ABOVE = 0.004
"""Metres over the table where the target begins."""
_BIN = 0.002


def object_in(demo: Demonstration, name: str, demos: DemoSet) -> PointCloud:
    """The object of a step by itself, in the frame that its field is of.

    That is the gripper frame for a full gripper, and the scene frame for an empty one.

    Raises:
        DemoError: The demonstration does not show it.
    """
    step = demo.step(name)
    number = demo.steps.index(step)
    if step.action.holding:
        assert step.grasp is not None
        held = without_hand(step.grasp, demos.gripper)
        before = [one for one in demo.steps[:number] if not one.action.holding]
        return held if not before else _part_of(held, object_in(demo, before[-1].name, demos),
                                                before[-1].targets[0])  # fmt: skip
    later = [one for one in demo.steps[number + 1 :] if one.action.holding]
    if not later:
        raise DemoError(
            f"demonstration {demo.name!r}: no step with a full gripper follows {name!r}: the "
            "method 'ndf' needs one, to see which points were taken away."
        )
    away, _ = cKDTree(later[0].scene.points).query(step.scene.points)
    gone = away > GONE
    if gone.sum() < FEWEST:
        raise DemoError(
            f"demonstration {demo.name!r}: only {gone.sum()} points are gone after the step "
            f"{name!r}: need {FEWEST}; the object was not taken away, or the camera moved."
        )
    return step.scene.selected(gone)


def _part_of(
    held: PointCloud, taken: PointCloud, T_scene_gripper: Float[np.ndarray, "4 4"]
) -> PointCloud:
    """The points of a grasp cloud near where the object was in the hand when it was taken.

    What is known of a hand's shape leaves points of its fingers, which have closed.

    Args:
        held: Grasp cloud.
        taken: The object in the scene.
        T_scene_gripper: Where it was taken.
    """
    there = taken.transformed(np.linalg.inv(T_scene_gripper))
    near = cKDTree(there.points).query(held.points)[0] < HELD
    return held.selected(near) if near.sum() >= FEWEST else held


def above_table(scene: PointCloud) -> PointCloud:
    """What stands on the table: points over the height that most points have."""
    height = scene.points[:, 2]
    counts, edges = np.histogram(height, np.arange(height.min(), height.max() + 2 * _BIN, _BIN))
    table = edges[int(counts.argmax())] + _BIN
    over = height > table + ABOVE
    return scene.selected(over) if over.sum() >= FEWEST else scene


def target_poses(demos: DemoSet, name: str) -> tuple[PointCloud, list[Float[np.ndarray, "4 4"]]]:
    """The target's cloud in the first demonstration, and T_scene_target of all demonstrations.

    Its frame is the scene frame of the first demonstration.
    """
    targets = [above_table(step.scene) for step in demos.steps(name)]
    poses = [standing_pose(targets[0].points, one.points) for one in targets[1:]]
    return targets[0], [np.eye(4), *poses]
