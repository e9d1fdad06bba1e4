"""The motion around a gripper pose: where it begins, the pose itself, where it ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.demos import Gripper

PRE_DISTANCE = 0.08
"""Metres between the pre-pose and the pose, and between the pose and the retreat pose."""


@dataclass(frozen=True, eq=False)
class Motion:
    """Three gripper poses in order; all are T_scene_gripper [4, 4].

    Attributes:
        T_scene_pre: Before the pose, back along the approach.
        T_scene_gripper: Where the gripper acts.
        T_scene_retreat: After it, back along the approach.
    """

    T_scene_pre: Float[np.ndarray, "4 4"]
    T_scene_gripper: Float[np.ndarray, "4 4"]
    T_scene_retreat: Float[np.ndarray, "4 4"]

    @classmethod
    def along_approach(
        cls,
        T_scene_gripper: Float[np.ndarray, "4 4"],
        gripper: Gripper,
        distance: float = PRE_DISTANCE,
    ) -> Motion:
        """The motion that comes and goes along the gripper's direction of approach."""
        back = backed_off(T_scene_gripper[None], gripper, distance)[0]
        return cls(back, T_scene_gripper, back)


def backed_off(
    T_scene_gripper: Float[np.ndarray, "poses 4 4"], gripper: Gripper, distance: float
) -> Float[np.ndarray, "poses 4 4"]:
    """Poses moved back along the direction of approach, metres."""
    approach = T_scene_gripper[:, :3, :3] @ gripper.T_gripper_contact[:3, 2]
    moved = T_scene_gripper.copy()
    moved[:, :3, 3] -= distance * approach
    return moved
