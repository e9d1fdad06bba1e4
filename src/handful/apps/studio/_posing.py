"""Where the gripper stands in a scene at first, and how keys move it."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from handful.clouds import PointCloud
from handful.demos import Gripper
from handful.policy import shifted_pose

Pose = Float[np.ndarray, "4 4"]

STEP, BIG_STEP = 0.001, 0.01
"""Metres that a key moves the gripper; the larger with Shift."""
TURN, BIG_TURN = math.radians(1.0), math.radians(10.0)
"""Radians that a key turns it, with Alt."""
ABOVE = 0.05
"""Metres between the scene and the contact point at first."""

_AXES = {
    "ArrowRight": (0, 1.0),
    "ArrowLeft": (0, -1.0),
    "ArrowUp": (1, 1.0),
    "ArrowDown": (1, -1.0),
    "PageUp": (2, -1.0),
    "PageDown": (2, 1.0),
}
"""Axis of the contact frame, and direction: opening, breadth, approach."""


def first_pose(scene: PointCloud, gripper: Gripper) -> Pose:
    """A pose above the middle of a scene, z up, with the approach straight down."""
    low, high = np.percentile(scene.points.astype(np.float64), [3.0, 97.0], axis=0)
    T = np.eye(4)
    T[:3, :3] = np.diag([1.0, -1.0, -1.0])
    T[:3, 3] = [*(low + high)[:2] / 2.0, float(scene.points[:, 2].max()) + ABOVE]
    return T @ np.linalg.inv(gripper.T_gripper_contact)


def nudged(pose: Pose, gripper: Gripper, key: str, shift: bool, alt: bool) -> Pose:
    """The pose after a key; unknown keys change nothing.

    Args:
        pose: T_scene_gripper before.
        gripper: Whose contact frame says the directions.
        key: Its name.
        shift: With Shift: more.
        alt: With Alt: turn instead of moving.
    """
    if key not in _AXES:
        return pose
    axis, sign = _AXES[key]
    amount = (BIG_TURN if shift else TURN) if alt else (BIG_STEP if shift else STEP)
    x, y, z = (sign * amount * np.eye(3)[axis]).tolist()
    if alt:
        return shifted_pose(pose, gripper, turn=(x, y, z))
    return shifted_pose(pose, gripper, shift=(x, y, z))
