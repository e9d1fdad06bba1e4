"""Whether the robot can do a motion: joint angles for all of it, and collisions, from the truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from handful.policy import Verdict
from handful.sim._arm import HOME
from handful.sim._ik import Joints, plan
from handful.sim._physics import Role
from handful.sim._world import World
from handful.sim.objects import Pose

BACK_OFF = 0.03
"""Metres between pre-grasp and grasp (along the approach) and pre-place and place (above)."""
LIFT = 0.20
"""Metres that a pick rises."""
RETRACT = 0.10
"""Metres that the hand goes back after a place, along the approach."""

_HIT = 2e-4
"""Metres of penetration that count as a collision of the hand. Nearly none: a finger that would
only graze a block at its goal may still run head-on into the block's edge on the way there."""
_GRAZE = 1e-3
"""The same between an open hand and the object that it will take; and for the oracle's goals."""
_BRUSH = 2.5e-3
"""The same between a held object, which can give way, and the target on the way."""
_REST = 4e-3
"""The same where the object will rest."""
_OUT_OF_THE_WAY = 3.0
"""Metres above the scene: where the true object is put while only the hand is checked."""


class MotionChecks:
    """Plans and checks motions for the pair in focus of a world.

    Args:
        world: Looked into, and never changed.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._plans: dict[tuple[str, bytes], list[Joints] | None] = {}

    @property
    def closed_gap(self) -> float:
        """Distance between the fingers around a thing that is taken, about, metres."""
        return self._world.gripper.opening / 8

    def can_pick(self, T_scene_gripper: Pose) -> Verdict:
        """Whether the open hand can go there and come up again with the object."""
        world = self._world
        if world.hand_in_furniture(T_scene_gripper):
            return Verdict(False, "the open hand would hit the furniture")
        reach = self.pick_plan(T_scene_gripper)
        if reach is None:
            return Verdict(False, "out of reach: no joint angles for approach, grasp and lift")
        for joints in reach[:3]:
            state = world.imagine(joints, world.gripper.opening)
            for role, depth in (
                (Role.FURNITURE, _HIT),
                (Role.TARGET, _HIT),
                (Role.OTHER, _HIT),
                (Role.OBJECT, _GRAZE),
            ):
                if world.touching(Role.ROBOT, role, depth, state):
                    return Verdict(False, f"the open hand would hit the {role.value}")
        T_gripper_item = np.linalg.inv(T_scene_gripper) @ world.T_scene_item
        for joints in reach[4::3]:
            state = world.imagine(joints, self.closed_gap, T_gripper_item)
            for mover in (Role.ROBOT, Role.OBJECT):
                for role in (Role.TARGET, Role.OTHER):
                    if world.touching(mover, role, _BRUSH, state):
                        return Verdict(
                            False, f"on its way up the {mover.value} would hit the {role.value}"
                        )
        return Verdict(True)

    def can_place(
        self, T_scene_gripper: Pose, T_gripper_item: Pose, gap: float | None = None
    ) -> Verdict:
        """Whether the hand can go there with the object, open and leave.

        Args:
            T_scene_gripper: Where the fingers open.
            T_gripper_item: How the object is held.
            gap: Distance between the fingers, metres; as now if not given.
        """
        world = self._world
        reach = self.place_plan(T_scene_gripper)
        if reach is None:
            return Verdict(False, "out of reach: no joint angles for lowering and retracting")
        for number, joints in enumerate(reach[:3]):
            state = world.imagine(joints, gap, T_gripper_item)
            for role in (Role.FURNITURE, Role.TARGET, Role.OTHER):
                if world.touching(Role.ROBOT, role, _HIT, state):
                    return Verdict(False, f"the hand would hit the {role.value}")
            if world.touching(Role.OBJECT, Role.FURNITURE, _HIT, state):
                return Verdict(False, "the held object would hit table or support")
            if world.touching(Role.OBJECT, Role.OTHER, _HIT, state):
                return Verdict(False, "the held object would hit the other things")
            depth = _REST if number == 2 else _BRUSH
            if world.touching(Role.OBJECT, Role.TARGET, depth, state):
                return Verdict(False, "the held object would hit the target")
        return Verdict(True)

    def hand_can_place(self, T_scene_gripper: Pose, gap: float | None = None) -> Verdict:
        """The same for the hand alone: the true object is put out of the way."""
        away = np.eye(4)
        away[2, 3] = _OUT_OF_THE_WAY
        return self.can_place(T_scene_gripper, np.linalg.inv(T_scene_gripper) @ away, gap)

    def clear_goal(self, T_scene_item: Pose) -> bool:
        """Whether the object at a pose and on its way down there hits nothing; no robot."""
        world = self._world
        for up in (0.0, BACK_OFF / 2, BACK_OFF):
            state = world.imagine(HOME, T_scene_item=_moved(T_scene_item, (0.0, 0.0, up)))
            if world.touching(Role.OBJECT, Role.FURNITURE, _HIT, state):
                return False
            if world.touching(Role.OBJECT, Role.OTHER, _HIT, state):
                return False
            if world.touching(Role.OBJECT, Role.TARGET, _GRAZE, state):
                return False
        return True

    def pick_plan(self, T_scene_gripper: Pose) -> list[Joints] | None:
        """Joint angles: two poses on the approach, the grasp, and eight on the way up."""
        key = ("pick", T_scene_gripper.tobytes())
        if key not in self._plans:
            back = self._approach(T_scene_gripper) * BACK_OFF
            path = [
                _moved(T_scene_gripper, -back),
                _moved(T_scene_gripper, -back / 2),
                T_scene_gripper,
            ]
            lift = np.linspace(0.0, LIFT, 9)[1:]
            path += [_moved(T_scene_gripper, (0.0, 0.0, rise)) for rise in lift]
            self._plans[key] = plan(path)
        return self._plans[key]

    def place_plan(self, T_scene_gripper: Pose) -> list[Joints] | None:
        """Joint angles: two poses above, the place, and four on the way back."""
        key = ("place", T_scene_gripper.tobytes())
        if key not in self._plans:
            approach = self._approach(T_scene_gripper)
            path = [_moved(T_scene_gripper, (0.0, 0.0, up)) for up in (BACK_OFF, BACK_OFF / 2, 0.0)]
            away = np.linspace(0, RETRACT, 5)[1:]
            path += [_moved(T_scene_gripper, -approach * back) for back in away]
            self._plans[key] = plan(path)
        return self._plans[key]

    def _approach(self, T_scene_gripper: Pose) -> Float[np.ndarray, "3"]:
        """Unit vector of the approach, scene frame."""
        return T_scene_gripper[:3, :3] @ self._world.gripper.T_gripper_contact[:3, 2]


def _moved(pose: Pose, by: Sequence[float] | Float[np.ndarray, "3"]) -> Pose:
    moved = pose.copy()
    moved[:3, 3] += by
    return moved
