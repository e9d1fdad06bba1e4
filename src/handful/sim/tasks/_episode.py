"""One episode: observe, pick, observe, place, judge. A policy and an oracle drive it alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float

from handful.clouds import PointCloud
from handful.errors import GeometryError, OptionError, unknown_name_message
from handful.geometry import check_pose
from handful.sim._arm import HOME, OPENING
from handful.sim._cameras import NO_NOISE, DepthNoise, observe_grasp, observe_scene
from handful.sim._errors import DivergedError
from handful.sim._eye import Eye
from handful.sim._ik import Joints, plan
from handful.sim._physics import Role
from handful.sim._world import World
from handful.sim.objects import Pose
from handful.sim.tasks._types import Setup, Verdict

if TYPE_CHECKING:
    from handful.sim.tasks._task import Task

BACK_OFF = 0.03
"""Metres between pre-grasp and grasp (along the approach) and pre-place and place (above)."""
LIFT = 0.20
RETRACT = 0.10
JUDGE_TIME = 2.0
"""Seconds that the target must hold the object, all other contacts switched off."""

_HIT = 2e-4
"""Metres of penetration that count as a collision of the hand. Nearly none: a finger that would
only graze a block at its goal may still run head-on into the block's edge on the way there."""
_GRAZE = 1e-3
"""The same between an open hand and the object that it will take; and for the oracle's goals."""
_BRUSH = 2.5e-3
"""The same between a held object, which can give way, and the target on the way."""
_REST = 4e-3
"""The same where the object will rest."""


@dataclass(eq=False)
class Episode:
    """A world and what has happened in it so far.

    Attributes:
        task: What is to be done.
        setup: How it differs from the demonstrations.
        seed: Of the episode.
        world: The physics; oracles look into it, policies must not.
        rng: For everything random after the reset.
        noise: Of the depth cameras.
        fixed_carry: Hold the object by a constraint while carrying, as the paper did.
        holding: Whether the hand holds the object.
        rejected: Why the layouts that the reset drew before this one were thrown away.
        known_pick: A pick that the reset found; the episode can be solved from there.
        known_goal: T_scene_item that the oracle had in mind when it chose its last pick.
    """

    task: Task
    setup: Setup
    seed: int
    world: World
    rng: np.random.Generator
    noise: DepthNoise = NO_NOISE
    fixed_carry: bool = False
    holding: bool = False
    rejected: tuple[str, ...] = ()
    known_pick: Pose | None = None
    known_goal: Pose | None = None
    _eye: Eye | None = None
    _plans: dict[tuple[str, bytes], list[Joints] | None] = field(default_factory=dict)

    # --- observing -------------------------------------------------------------------------

    @property
    def eye(self) -> Eye:
        """Draws this world."""
        if self._eye is None:
            self._eye = Eye(self.world)
        return self._eye

    def observe_scene(self) -> PointCloud:
        """The scene cloud X; neither the robot nor a held object is in it."""
        return observe_scene(self.world, self.eye, self.holding, self.noise, self.rng)

    def observe_grasp(self) -> PointCloud:
        """The grasp cloud Y: the hand and what it holds, in the gripper frame."""
        return observe_grasp(self.world, self.eye, self.noise, self.rng, self.holding)

    def close(self) -> None:
        """Give graphics memory back."""
        if self._eye is not None:
            self._eye.close()
            self._eye = None

    def __enter__(self) -> Episode:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- judging poses ---------------------------------------------------------------------

    def feasible(self, pose: Pose, step: str) -> Verdict:
        """Whether the robot can go there: inverse kinematics and collisions of the hand.

        Args:
            pose: T_scene_gripper.
            step: `pick` or `place`.
        """
        bad = _bad_pose(pose)
        if bad is not None:
            return bad
        if step == "pick":
            return self._can_pick(pose)
        if step == "place":
            return self.can_place(pose, np.linalg.inv(self.world.hand_pose) @ self.world.item_pose)
        raise OptionError(unknown_name_message("step", step, ("pick", "place")))

    def _can_pick(self, pose: Pose) -> Verdict:
        if self.world.hand_in_furniture(pose):
            return Verdict(False, "the open hand would hit the furniture")
        reach = self._pick_plan(pose)
        if reach is None:
            return Verdict(False, "out of reach: no joint angles for approach, grasp and lift")
        for joints in reach[:3]:
            state = self.world.imagine(joints, OPENING)
            for role, depth in (
                (Role.FURNITURE, _HIT),
                (Role.TARGET, _HIT),
                (Role.OBJECT, _GRAZE),
            ):
                if self.world.touching(Role.ROBOT, role, depth, state):
                    return Verdict(False, f"the open hand would hit the {role.value}")
        held = np.linalg.inv(pose) @ self.world.item_pose
        for joints in reach[4::3]:
            state = self.world.imagine(joints, OPENING / 8, held)
            for role in (Role.ROBOT, Role.OBJECT):
                if self.world.touching(role, Role.TARGET, _BRUSH, state):
                    return Verdict(False, f"on its way up the {role.value} would hit the target")
        return Verdict(True)

    def can_place(self, pose: Pose, held: Pose, gap: float | None = None) -> Verdict:
        """The same for placing an object that is held at T_gripper_item = `held`."""
        reach = self._place_plan(pose)
        if reach is None:
            return Verdict(False, "out of reach: no joint angles for lowering and retracting")
        for number, joints in enumerate(reach[:3]):
            state = self.world.imagine(joints, gap, held)
            for role in (Role.FURNITURE, Role.TARGET):
                if self.world.touching(Role.ROBOT, role, _HIT, state):
                    return Verdict(False, f"the hand would hit the {role.value}")
            if self.world.touching(Role.OBJECT, Role.FURNITURE, _HIT, state):
                return Verdict(False, "the held object would hit table or support")
            depth = _REST if number == 2 else _BRUSH
            if self.world.touching(Role.OBJECT, Role.TARGET, depth, state):
                return Verdict(False, "the held object would hit the target")
        return Verdict(True)

    def clear_goal(self, goal: Pose) -> bool:
        """Whether an object at T_scene_item and on its way down there hits nothing; no robot."""
        for up in (0.0, BACK_OFF / 2, BACK_OFF):
            state = self.world.imagine(HOME, item=_moved(goal, (0.0, 0.0, up)))
            if self.world.touching(Role.OBJECT, Role.FURNITURE, _HIT, state):
                return False
            if self.world.touching(Role.OBJECT, Role.TARGET, _GRAZE, state):
                return False
        return True

    def _pick_plan(self, pose: Pose) -> list[Joints] | None:
        key = ("pick", pose.tobytes())
        if key not in self._plans:
            back = pose[:3, 2] * BACK_OFF
            path = [_moved(pose, -back), _moved(pose, -back / 2), pose]
            path += [_moved(pose, (0, 0, rise)) for rise in np.linspace(0.0, LIFT, 9)[1:]]
            self._plans[key] = plan(path)
        return self._plans[key]

    def _place_plan(self, pose: Pose) -> list[Joints] | None:
        key = ("place", pose.tobytes())
        if key not in self._plans:
            path = [_moved(pose, (0, 0, up)) for up in (BACK_OFF, BACK_OFF / 2, 0.0)]
            path += [_moved(pose, -pose[:3, 2] * back) for back in np.linspace(0, RETRACT, 5)[1:]]
            self._plans[key] = plan(path)
        return self._plans[key]

    # --- acting ----------------------------------------------------------------------------

    def pick(self, pose: Pose) -> Verdict:
        """Go to the pre-grasp at once; approach, close and lift in physics.

        Args:
            pose: T_scene_gripper with the fingers around what is to be taken.
        """
        plan = None if _bad_pose(pose) else self._pick_plan(pose)
        if plan is None:
            return Verdict(False, "the pick pose is out of reach")
        world = self.world
        before = world.item_height
        try:
            world.teleport(plan[0], holding=False)
            world.follow(plan[1:3], 0.35)
            world.close_fingers()
            if self.fixed_carry and world.touching(Role.ROBOT, Role.OBJECT):
                world.weld(True)
            world.follow(plan[3:], 0.8)
            world.advance(0.15)
        except DivergedError as error:
            return Verdict(False, str(error))
        # Of the centre of mass: an object that was taken by its end may turn in the hand.
        rise = world.item_height - before
        self.holding = world.touching(Role.ROBOT, Role.OBJECT) and rise > LIFT / 2
        if not self.holding:
            return Verdict(False, f"the object is not in the hand: it rose by {rise:.3f} m")
        return Verdict(True, f"the object rose by {rise:.3f} m")

    def place(self, pose: Pose) -> Verdict:
        """Go to the pre-place at once; lower, release and retract in physics.

        Args:
            pose: T_scene_gripper where the fingers open.
        """
        if not self.holding:
            return Verdict(False, "nothing is held")
        plan = None if _bad_pose(pose) else self._place_plan(pose)
        if plan is None:
            return Verdict(False, "the place pose is out of reach")
        world = self.world
        try:
            world.teleport(plan[0], holding=True)
            world.advance(0.1)
            world.follow(plan[1:3], 0.45)
            if self.fixed_carry:
                world.weld(False)
            world.open_fingers()
            self.holding = False
            world.advance(0.1)
            world.follow(plan[3:], 0.5)
        except DivergedError as error:
            self.holding = False
            return Verdict(False, str(error))
        return Verdict(True, "released")

    def success(self) -> Verdict:
        """The two-second test: only the target may hold the object. Ends the episode.

        Contacts of the object with table, floor, support and robot are switched off.
        """
        world = self.world
        world.judge_alone()
        try:
            world.advance(JUDGE_TIME)
        except DivergedError as error:
            return Verdict(False, str(error))
        if not world.touching(Role.OBJECT, Role.TARGET):
            return Verdict(False, f"the {world.target.thing.name} does not hold the object")
        return self.task.well_placed(self)


def _moved(pose: Pose, by: Sequence[float] | Float[np.ndarray, "3"]) -> Pose:
    moved = pose.copy()
    moved[:3, 3] += by
    return moved


def _bad_pose(pose: Pose) -> Verdict | None:
    try:
        check_pose(torch.as_tensor(pose))
    except GeometryError as error:
        return Verdict(False, f"not a pose: {error}")
    return None
