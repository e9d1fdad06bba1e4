"""One episode: a simulated robot in front of a scene, and a judge of what it did there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import cKDTree

from handful._rigid import check_pose
from handful.clouds import PointCloud
from handful.demos import Gripper, TaskStep
from handful.errors import GeometryError
from handful.policy import Motion, Verdict
from handful.sim._arm import HOME
from handful.sim._cameras import observe_grasp, observe_scene
from handful.sim._errors import DivergedError
from handful.sim._hand import TIP_BEYOND_CONTACT
from handful.sim._physics import Role
from handful.sim._renderer import Renderer
from handful.sim._rig import DEFAULT_RIG, CameraRig
from handful.sim._world import World
from handful.sim.objects import Pose
from handful.sim.tasks._checks import LIFT, MotionChecks
from handful.sim.tasks._types import Setup

if TYPE_CHECKING:
    from handful.sim.tasks._sim_task import SimTask

JUDGE_TIME = 2.0
"""Seconds that the targets must hold the objects, all other contacts switched off."""

_LYING = 0.7
"""An object whose axis has less than this cosine with upwards lies."""
_NEAR_OBJECT = 0.03
"""Metres between finger tips and object; a hand farther off went to something else."""
_NEAR_TARGET = 0.05
"""Metres between the rims of object and target, seen from above; the same for a place."""
_AT_HOME = 0.02
"""Radians that joints may be away from home and still be there: servos give way a little."""


@dataclass(eq=False)
class Episode:
    """A world, and what has happened in it so far. It is a `handful.policy.Robot`.

    The name of a step says which pair of object and target it is about; `reach` and `execute`
    turn the world's focus to that pair.

    Attributes:
        task: What is to be done.
        setup: How it differs from the demonstrations.
        seed: Of the episode.
        world: The physics; oracles look into it, policies must not.
        rng: For everything random after the reset but the noise of the cameras, which has random
            numbers of its own: what the oracle does is the same for every rig.
        rig: The depth cameras.
        fixed_carry: Hold an object by a constraint while carrying, as the paper did.
        rejected: Why the layouts that the reset drew before this one were thrown away.
        held: The number of the pair whose object is in the hand; None if the hand is empty.
        known_picks: A pick for each pair that the reset found; the episode can be solved so.
        known_goals: T_scene_item that the oracle had in mind when it chose its last pick, by pair.
        things: Names of the objects.
        lying: Whether an object lay when the episode began.
    """

    task: SimTask
    setup: Setup
    seed: int
    world: World
    rng: np.random.Generator
    rig: CameraRig = DEFAULT_RIG
    fixed_carry: bool = False
    rejected: tuple[str, ...] = ()
    held: int | None = None
    known_picks: dict[int, Pose] = field(default_factory=dict)
    known_goals: dict[int, Pose] = field(default_factory=dict)
    things: tuple[str, ...] = field(init=False)
    lying: bool = field(init=False)
    checks: MotionChecks = field(init=False, repr=False)
    _renderer: Renderer | None = field(init=False, default=None, repr=False)
    _camera_rng: np.random.Generator = field(init=False, repr=False)
    _grasp: PointCloud | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        self._camera_rng = self.rng.spawn(1)[0]
        self.checks = MotionChecks(self.world)
        self.things = tuple(item.thing.name for item in self.world.items)
        self.lying = False
        for pair in reversed(range(len(self.things))):
            self.world.focus(pair)
            self.lying |= bool(abs(self.world.T_scene_item[2, 2]) < _LYING)

    # --- observing -------------------------------------------------------------------------

    @property
    def gripper(self) -> Gripper:
        """The hand."""
        return self.world.gripper

    @property
    def holding(self) -> bool:
        """Whether the hand holds an object."""
        return self.held is not None

    @property
    def renderer(self) -> Renderer:
        """Draws this world."""
        if self._renderer is None:
            self._renderer = Renderer(self.world)
        return self._renderer

    def observe_scene(self) -> PointCloud:
        """The scene cloud X; neither the robot nor what it holds is in it.

        With the arm in view the robot drives home first, where it hides little, and takes what it
        holds along. If it would hit something there, it looks from where it is.
        """
        self._focus_on_held()
        if not self.rig.arm_in_view:
            return observe_scene(
                self.world, self.renderer, self.holding, self.rig, self._camera_rng
            )
        self._drive_home()
        grasp = self.observe_grasp() if self.holding else None
        return observe_scene(
            self.world, self.renderer, self.holding, self.rig, self._camera_rng, grasp
        )

    def observe_grasp(self) -> PointCloud:
        """The grasp cloud Y: the hand and what it holds, in the gripper frame.

        With the arm in view a robot that holds something has looked at it before it looks at the
        scene; until it acts again, that cloud stays.
        """
        self._focus_on_held()
        if self._grasp is not None:
            return self._grasp
        grasp = observe_grasp(self.world, self.renderer, self.rig, self._camera_rng, self.holding)
        if self.rig.arm_in_view and self.holding:
            self._grasp = grasp
        return grasp

    def _drive_home(self) -> None:
        """Put the arm out of the cameras' way, if that is free, with what it holds."""
        world = self.world
        if np.abs(world.joints - HOME).max() < _AT_HOME:
            return
        carried = world.T_gripper_item if self.holding else None
        there = world.imagine(HOME, T_gripper_item=carried)
        for mover in (Role.ROBOT, Role.OBJECT) if self.holding else (Role.ROBOT,):
            for role in (Role.TARGET, Role.OTHER, Role.FURNITURE):
                if world.touching(mover, role, data=there):
                    return
        world.teleport(HOME, self.holding)

    def close(self) -> None:
        """Give graphics memory back."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def __enter__(self) -> Episode:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def focus(self, step: TaskStep) -> None:
        """Turn to the pair of object and target that a step is about.

        Raises:
            DemoError: The task has no such step.
        """
        self.world.focus(self.task.pair_of(step))

    def _focus_on_held(self) -> None:
        if self.held is not None:
            self.world.focus(self.held)

    # --- judging poses ---------------------------------------------------------------------

    def reach(self, step: TaskStep, T_scene_gripper: Pose) -> Verdict:
        """Whether the robot can do a step at a pose: joint angles, and collisions of the hand.

        Of a step with something in the hand only the hand is checked, and the true object is put
        out of the way: a robot knows what it holds by its cloud alone, and `policy.Feasibility`
        judges that cloud. Where nothing is held yet, the step is imagined, with closed fingers.

        Args:
            step: Of this episode's task.
            T_scene_gripper: Where the fingers close or open.
        """
        bad = _bad_pose(T_scene_gripper)
        if bad is not None:
            return bad
        self.focus(step)
        if step.action.holding:
            gap = None if self.holding else self.checks.closed_gap
            return self.checks.hand_can_place(T_scene_gripper, gap)
        return self.checks.can_pick(T_scene_gripper)

    def tips_at_object(self, T_scene_gripper: Pose) -> bool:
        """Whether the finger tips are at the object in focus; the truth, only to name failures."""
        world = self.world
        item = world.T_scene_item
        corners = world.item.thing.vertices @ item[:3, :3].T + item[:3, 3]
        contact = T_scene_gripper @ self.gripper.T_gripper_contact
        tips = contact[:3, 3] + TIP_BEYOND_CONTACT * contact[:3, 2]
        return bool(cKDTree(corners).query(tips)[0] < _NEAR_OBJECT)

    def object_at_target(self, T_scene_gripper: Pose) -> bool:
        """Whether the object in focus, held as now, will be over its target; the truth, too."""
        world = self.world
        item, base = T_scene_gripper @ world.T_gripper_item, world.target.T_scene_thing
        corners = world.item.thing.vertices @ item[:3, :3].T + item[:3, 3]
        away = np.linalg.norm(corners[:, :2] - base[:2, 3], axis=1).min()
        return bool(away < world.target.thing.footprint(base) + _NEAR_TARGET)

    # --- acting ----------------------------------------------------------------------------

    def execute(self, step: TaskStep, motion: Motion) -> Verdict:
        """Go to the pose, close or open the fingers there, and leave.

        Only the pose itself is taken from the motion: this robot has its own way to come (3 cm
        along the approach for a pick, 3 cm from above for a place) and to leave (a lift by 20 cm,
        and a retreat by 10 cm), as in the paper.

        Args:
            step: Of this episode's task.
            motion: The pose.
        """
        self.focus(step)
        self._grasp = None
        if step.action.holding:
            return self._place(motion.T_scene_gripper)
        return self._pick(motion.T_scene_gripper)

    def _pick(self, T_scene_gripper: Pose) -> Verdict:
        """Go to the pre-grasp at once; approach, close and lift in physics."""
        if self.held is not None:
            return Verdict(False, f"the hand is not empty: it holds the {self.things[self.held]}")
        plan = None if _bad_pose(T_scene_gripper) else self.checks.pick_plan(T_scene_gripper)
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
        if not (world.touching(Role.ROBOT, Role.OBJECT) and rise > LIFT / 2):
            return Verdict(False, f"the object is not in the hand: it rose by {rise:.3f} m")
        self.held = world.in_focus
        return Verdict(True, f"the object rose by {rise:.3f} m")

    def _place(self, T_scene_gripper: Pose) -> Verdict:
        """Go to the pre-place at once; lower, release and retract in physics."""
        if self.held is None:
            return Verdict(False, "nothing is held")
        if self.held != self.world.in_focus:
            return Verdict(False, f"the hand holds the {self.things[self.held]}")
        plan = None if _bad_pose(T_scene_gripper) else self.checks.place_plan(T_scene_gripper)
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
            self.held = None
            world.advance(0.1)
            world.follow(plan[3:], 0.5)
        except DivergedError as error:
            self.held = None
            return Verdict(False, str(error))
        return Verdict(True, "released")

    def success(self) -> Verdict:
        """The two-second test: only its own target may hold each object. Ends the episode.

        All other contacts of the objects, with each other too, are switched off.
        """
        world = self.world
        world.judge_alone()
        try:
            world.advance(JUDGE_TIME)
        except DivergedError as error:
            return Verdict(False, str(error))
        seen = []
        for pair, part in enumerate(self.task.parts):
            world.focus(pair)
            if not world.touching(Role.OBJECT, Role.TARGET):
                return Verdict(
                    False, f"the {world.target.thing.name} does not hold the {self.things[pair]}"
                )
            verdict = part.what.well_placed(world)
            if not verdict:
                return verdict
            seen.append(verdict.reason)
        return Verdict(True, ", ".join(seen))


def _bad_pose(T_scene_gripper: Pose) -> Verdict | None:
    try:
        check_pose(np.asarray(T_scene_gripper))
    except GeometryError as error:
        return Verdict(False, f"not a pose: {error}")
    return None
