"""How far apart the fingers are before and after they act."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from handful.demos import Gripper

DEPTH = 0.01
"""Metres before and beyond the contact, along the approach, in which fingers touch."""
BREADTH = 0.011
"""Metres to both sides of the contact, across the opening: half of a finger's breadth."""
FEWEST = 4
"""Points between the fingers that say something."""


def width_between(
    points: Float[np.ndarray, "points 3"],
    T_scene_gripper: Float[np.ndarray, "4 4"],
    gripper: Gripper,
) -> float | None:
    """The extent of what is seen between the open fingers, along their opening, metres.

    Args:
        points: Of the scene, metres.
        T_scene_gripper: Where the gripper is.
        gripper: Whose fingers.

    Returns:
        At most the gripper's opening; None if next to nothing is seen there.
    """
    T_scene_contact = T_scene_gripper @ gripper.T_gripper_contact
    half = np.array([gripper.opening / 2.0, BREADTH, DEPTH])
    near = np.abs(points - T_scene_contact[:3, 3]).max(axis=1) <= np.linalg.norm(half)
    local = (points[near] - T_scene_contact[:3, 3]) @ T_scene_contact[:3, :3]
    between = local[(np.abs(local) <= half).all(axis=1), 0]
    return float(np.ptp(between)) if len(between) >= FEWEST else None
