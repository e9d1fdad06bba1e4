"""Poses as Transporter Networks see them: a place in the plane, a yaw, and three more numbers.

T_scene_contact = (x, y, z; Rz(yaw) Ry(pitch) Rx(roll) R_base). The base is a gripper that looks
down, or sideways, as the demonstrated ones do; there roll and pitch are far from where the angles
are ambiguous (pitch of 90 degrees).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from handful.demos import Gripper
from handful.errors import OptionError, unknown_name_message

BASES = {
    "down": np.diag([1.0, -1.0, -1.0]),
    "sideways": np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
}
"""R_scene_contact at yaw, pitch and roll zero: approach downwards; approach along +x with the
opening axis along +y."""
LOOKS_DOWN = math.cos(math.radians(45.0))


@dataclass(frozen=True)
class PlanarPose:
    """A pose by its six numbers: metres and radians, scene frame, of the contact point."""

    x: float
    y: float
    yaw: float
    z: float
    roll: float
    pitch: float

    @property
    def rest(self) -> Float[np.ndarray, "3"]:
        """What is regressed: z, roll and pitch."""
        return np.array([self.z, self.roll, self.pitch])


@dataclass(frozen=True)
class PlanarFrame:
    """How poses of a gripper become planar poses and back.

    Attributes:
        base: One of `BASES`.
    """

    base: str = "down"

    def __post_init__(self) -> None:
        if self.base not in BASES:
            raise OptionError(unknown_name_message("base", self.base, BASES))

    @classmethod
    def fitting(cls, T_scene_contact: Float[np.ndarray, "poses 4 4"]) -> PlanarFrame:
        """The base that demonstrated poses are nearest to."""
        down = float(-T_scene_contact[:, 2, 2].mean())
        return cls("down" if down > LOOKS_DOWN else "sideways")

    def planar(self, T_scene_gripper: Float[np.ndarray, "4 4"], gripper: Gripper) -> PlanarPose:
        """The six numbers of a pose."""
        T_scene_contact = T_scene_gripper @ gripper.T_gripper_contact
        turned = T_scene_contact[:3, :3] @ BASES[self.base].T
        roll = math.atan2(turned[2, 1], turned[2, 2])
        pitch = math.asin(min(1.0, max(-1.0, -turned[2, 0])))
        yaw = math.atan2(turned[1, 0], turned[0, 0])
        x, y, z = T_scene_contact[:3, 3].tolist()
        return PlanarPose(x, y, yaw, z, roll, pitch)

    def pose(self, planar: PlanarPose, gripper: Gripper) -> Float[np.ndarray, "4 4"]:
        """T_scene_gripper from the six numbers."""
        T_scene_contact = np.eye(4)
        angles = [planar.roll, planar.pitch, planar.yaw]
        T_scene_contact[:3, :3] = Rotation.from_euler("xyz", angles).as_matrix() @ BASES[self.base]
        T_scene_contact[:3, 3] = planar.x, planar.y, planar.z
        return T_scene_contact @ np.linalg.inv(gripper.T_gripper_contact)

    def held(self, gripper: Gripper) -> Float[np.ndarray, "4 4"]:
        """From the gripper frame to one with the contact at its origin and the gripper as in base.

        What the gripper holds is drawn there: it looks as it does in the scene at yaw, pitch and
        roll zero.
        """
        turn = np.eye(4)
        turn[:3, :3] = BASES[self.base]
        return turn @ np.linalg.inv(gripper.T_gripper_contact)


def yaw_number(yaw: float, yaws: int) -> int:
    """The nearest of evenly spaced yaws, of which number 0 is 0."""
    return round(yaw / (2.0 * math.pi / yaws)) % yaws


def yaw_of(number: int, yaws: int) -> float:
    """The yaw of a number, radians."""
    return 2.0 * math.pi * number / yaws
