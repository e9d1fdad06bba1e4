"""One scene in MuJoCo: what stands where, stepping, moving things at once, and who touches whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from handful.demos import Gripper
from handful.errors import OptionError
from handful.sim._arm import HOME, add_arm
from handful.sim._contacts import Contacts
from handful.sim._errors import DivergedError
from handful.sim._hand import (
    CLOSED_TARGET,
    SIMULATED,
    check_hand,
    finger_setpoint,
    open_hand_points,
)
from handful.sim._model import Placed, add_thing, furnish, quat_wxyz_of
from handful.sim._physics import (
    COLLIDE,
    MOST_PAIRS,
    TIMESTEP,
    Role,
    physics,
    set_up,
)
from handful.sim.objects import Pose

ROOM = 1.5
"""Metres: an object farther from the table's middle was thrown away."""
FRAME_TIME = 1.0 / 25.0
"""Seconds of simulated time between the frames of a video."""


class World:
    """The robot, a table, pairs of an object and its target, and what else stands around.

    One pair is in focus (`focus`): `item`, `target`, `T_scene_item` and the roles `OBJECT` and
    `TARGET` are of that pair. The first world of a process passes MuJoCo's warnings to `logging`,
    for the whole process.

    Attributes:
        items: The objects, and where they are at the beginning.
        targets: Their hangers and trays, in the same order; they do not move.
        supports: Blocks that carry objects; they do not move.
        gripper: The hand.
        on_frame: Called whenever simulated time has gone on by `FRAME_TIME`.
    """

    def __init__(
        self,
        items: Sequence[Placed],
        targets: Sequence[Placed],
        supports: Sequence[Placed] = (),
        distractors: Sequence[Placed] = (),
        gripper: Gripper = SIMULATED,
    ) -> None:
        """Build the model; the arm is at home with open fingers.

        Args:
            items: The objects to pick and place; one or more.
            targets: Hanger or tray of each.
            supports: Blocks that carry objects.
            distractors: Only seen.
            gripper: The hand; see `check_hand`.

        Raises:
            OptionError: Numbers of objects and targets differ, or the hand cannot be simulated.
        """
        if len(items) != len(targets) or not 1 <= len(items) <= MOST_PAIRS:
            raise OptionError(
                f"a world with {len(items)} objects and {len(targets)} targets: need a target for "
                f"each object, 1 to {MOST_PAIRS} pairs."
            )
        check_hand(gripper)
        self._mj = physics()
        self.items, self.targets = tuple(items), tuple(targets)
        self.supports, self.gripper = tuple(supports), gripper
        self._hand_points = open_hand_points(gripper)
        self.model: Any = self._build(distractors).compile()
        self.data: Any = self._mj.MjData(self.model)
        self._probe: Any = self._mj.MjData(self.model)
        self._hand = self.model.body("hand").id
        names = [f"item{pair}" for pair in range(len(items))]
        self._bodies = [int(self.model.body(name).id) for name in names]
        self._qpos = [int(self.model.joint(name).qposadr[0]) for name in names]
        self._dofs = [int(self.model.joint(name).dofadr[0]) for name in names]
        self._contacts = Contacts(self.model)
        self.on_frame: Callable[[], None] | None = None
        self._next_frame = 0.0
        self._focus = -1
        self.focus(0)
        self.reset()

    def _build(self, distractors: Sequence[Placed]) -> Any:
        spec = self._mj.MjSpec()
        set_up(spec, self._mj)
        furnish(self._mj, spec)
        add_arm(spec, COLLIDE[Role.ROBOT], self.gripper)
        for pair, target in enumerate(self.targets):
            add_thing(self._mj, spec, target, f"target{pair}", Role.TARGET, pair)
        for number, support in enumerate(self.supports):
            add_thing(self._mj, spec, support, f"support{number}", Role.FURNITURE)
        for number, distractor in enumerate(distractors):
            add_thing(self._mj, spec, distractor, f"distractor{number}", Role.DISTRACTOR)
        for pair, item in enumerate(self.items):
            add_thing(self._mj, spec, item, f"item{pair}", Role.OBJECT, pair)
        return spec

    def reset(self) -> None:
        """Everything as at the beginning, but for the focus."""
        self._mj.mj_resetData(self.model, self.data)
        self.data.qpos[:7] = HOME
        self.data.qpos[7:9] = self.gripper.opening / 2
        self.data.ctrl[:7] = HOME
        self.data.ctrl[7] = finger_setpoint(self.gripper.opening)
        for pair, item in enumerate(self.items):
            self._write_item(self.data, item.T_scene_thing, pair)
        self._mj.mj_forward(self.model, self.data)

    def focus(self, pair: int) -> None:
        """Turn to another pair of object and target.

        Only the object in focus is drawn in the group of the object; the others are drawn with the
        scene.
        """
        if not 0 <= pair < len(self.items):
            raise OptionError(f"pair {pair}: this world has pairs 0 to {len(self.items) - 1}.")
        if pair == self._focus:
            return
        self._focus = pair
        self._contacts.focus(pair)

    @property
    def in_focus(self) -> int:
        """The number of the pair in focus."""
        return self._focus

    # --- looking ---------------------------------------------------------------------------

    @property
    def item(self) -> Placed:
        """The object in focus, and where it was at the beginning."""
        return self.items[self._focus]

    @property
    def target(self) -> Placed:
        """The target in focus."""
        return self.targets[self._focus]

    @property
    def T_scene_gripper(self) -> Pose:
        """Where the hand is."""
        return self._body_pose(self._hand)

    @property
    def T_scene_item(self) -> Pose:
        """Where the object in focus is."""
        return self._body_pose(self._item)

    @property
    def T_gripper_item(self) -> Pose:
        """The object in focus, seen from the hand."""
        return np.linalg.inv(self.T_scene_gripper) @ self.T_scene_item

    @property
    def item_height(self) -> float:
        """Of the centre of mass of the object in focus, metres."""
        return float(self.data.xipos[self._item][2])

    @property
    def item_speed(self) -> float:
        """Of the origin of the object in focus, metres per second."""
        return float(np.linalg.norm(self.data.qvel[self._item_v : self._item_v + 3]))

    def T_scene_item_in(self, data: Any) -> Pose:
        """Where the object in focus is in another state, from `imagine`."""
        return self._body_pose(self._item, data)

    @property
    def joints(self) -> Float[np.ndarray, "7"]:
        """Angles of the arm, radians."""
        return self.data.qpos[:7].copy()

    @property
    def finger_gap(self) -> float:
        """Distance between the fingers, metres."""
        return float(self.data.qpos[7] + self.data.qpos[8])

    def touching(self, one: Role, other: Role, deeper: float = 0.0, data: Any = None) -> bool:
        """Whether bodies of two roles touch, by more than `deeper` metres.

        Args:
            one: A role.
            other: Another role, or the same.
            deeper: Depth of penetration that is still forgiven.
            data: Another state of the same model; the present one if not given.
        """
        return self._contacts.touching(one, other, deeper, self.data if data is None else data)

    def hand_in_furniture(self, T_scene_gripper: Pose) -> bool:
        """Whether an open hand at a pose is surely in table or support; a quick check."""
        points = self._hand_points @ T_scene_gripper[:3, :3].T + T_scene_gripper[:3, 3]
        if points[:, 2].min() < -1e-4:
            return True
        for support in self.supports:
            T_scene_support = support.T_scene_thing
            local = (points - T_scene_support[:3, 3]) @ T_scene_support[:3, :3]
            low, high = support.thing.bounds
            if ((local > low + 1e-4) & (local < high - 1e-4)).all(axis=1).any():
                return True
        return False

    def imagine(
        self,
        joints: Float[np.ndarray, "7"],
        gap: float | None = None,
        T_gripper_item: Pose | None = None,
        T_scene_item: Pose | None = None,
    ) -> Any:
        """The state, contacts included, with arm or object elsewhere; the world itself stays.

        Args:
            joints: Angles of the arm.
            gap: Distance between the fingers, metres; as now if not given.
            T_gripper_item: Where the object in focus goes with the hand; it stays if not given.
            T_scene_item: Where the object in focus is put instead.
        """
        probe = self._probe
        probe.qpos[:] = self.data.qpos
        probe.qvel[:] = 0.0
        probe.qpos[:7] = joints
        if gap is not None:
            probe.qpos[7:9] = gap / 2
        if T_gripper_item is not None:
            self._mj.mj_kinematics(self.model, probe)
            self._write_item(probe, self._body_pose(self._hand, probe) @ T_gripper_item)
        if T_scene_item is not None:
            self._write_item(probe, T_scene_item)
        self._mj.mj_fwdPosition(self.model, probe)
        return probe

    def rehearse(self, T_scene_item: Pose, seconds: float) -> Pose | None:
        """Where the object in focus comes to if it is let go at a pose; the world itself stays.

        The robot is at home and touches nothing.

        Returns:
            T_scene_item after that time, or None if the target does not hold the object then.
        """
        opening = self.gripper.opening
        state = self.imagine(HOME, opening, T_scene_item=T_scene_item)
        state.ctrl[:7], state.ctrl[7] = HOME, finger_setpoint(opening)
        state.qacc_warmstart[:] = 0.0
        self._mj.mj_step(self.model, state, round(seconds / TIMESTEP))
        if not np.isfinite(state.qpos).all() or not self.touching(
            Role.OBJECT, Role.TARGET, data=state
        ):
            return None
        return self._body_pose(self._item, state)

    @property
    def state(self) -> Float[np.ndarray, "positions"]:
        """All positions: arm, fingers and objects; for `restore`."""
        return self.data.qpos.copy()

    # --- moving ----------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Let time pass with the motors as they are.

        Raises:
            DivergedError: The state is not finite, or an object left the room.
        """
        left = max(1, round(seconds / TIMESTEP))
        while left:
            chunk = min(left, 20)
            self._mj.mj_step(self.model, self.data, chunk)
            left -= chunk
            self._check()
            if self.on_frame is not None and self.data.time >= self._next_frame:
                self._next_frame = self.data.time + FRAME_TIME - 0.5 * TIMESTEP
                self.on_frame()

    def follow(self, path: Sequence[Float[np.ndarray, "7"]], seconds: float) -> None:
        """Drive the arm through joint angles, slowly at both ends."""
        corners = np.vstack([self.data.ctrl[:7], *path])
        ticks = max(2, round(seconds / 0.008))
        share = np.arange(1, ticks + 1) / ticks
        smooth = (10 * share**3 - 15 * share**4 + 6 * share**5) * (len(corners) - 1)
        knots = np.arange(len(corners))
        for spot in smooth:
            self.data.ctrl[:7] = [np.interp(spot, knots, column) for column in corners.T]
            self.advance(0.008)
        self.advance(0.06)

    def close_fingers(self, seconds: float = 0.4) -> None:
        """Close evenly until the full force is on, and hold it: a snap would flick things away."""
        start = float(self.data.qpos[7])
        for share in np.linspace(0.0, 1.0, 24):
            self.data.ctrl[7] = start + share * (CLOSED_TARGET - start)
            self.advance(seconds / 24)
        self.advance(0.1)

    def open_fingers(self, seconds: float = 0.3) -> None:
        """Open all the way, evenly: letting go must not fling the object."""
        start, end = float(self.data.qpos[7]), finger_setpoint(self.gripper.opening)
        for share in np.linspace(0.0, 1.0, 20):
            self.data.ctrl[7] = start + share * (end - start)
            self.advance(seconds / 20)

    def teleport(self, joints: Float[np.ndarray, "7"], holding: bool) -> None:
        """Put the arm elsewhere at once. All speeds become zero.

        Args:
            joints: Angles of the arm.
            holding: The object in focus goes with the hand.
        """
        T_gripper_item = self.T_gripper_item
        self.data.qpos[:7] = joints
        self.data.ctrl[:7] = joints
        self.data.qvel[:] = 0.0
        self._mj.mj_kinematics(self.model, self.data)
        if holding:
            self._write_item(self.data, self.T_scene_gripper @ T_gripper_item)
        self._mj.mj_forward(self.model, self.data)

    def weld(self, on: bool) -> None:
        """Fix the object in focus to the hand as it is now, or free it (the paper's carrying)."""
        number = self.model.equality(f"carry_item{self._focus}").id
        T_gripper_item = self.T_gripper_item
        self.model.eq_data[number, :3] = 0.0
        self.model.eq_data[number, 3:6] = T_gripper_item[:3, 3]
        self.model.eq_data[number, 6:10] = quat_wxyz_of(self._mj, T_gripper_item)
        self.data.eq_active[number] = int(on)

    def put_item(self, T_scene_item: Pose) -> None:
        """Put the object in focus somewhere, at rest."""
        self._write_item(self.data, T_scene_item)
        self.data.qvel[self._item_v : self._item_v + 6] = 0.0
        self._mj.mj_forward(self.model, self.data)

    def restore(self, state: Float[np.ndarray, "positions"]) -> None:
        """Put everything where it was, at rest."""
        self.data.qpos[:] = state
        self.data.qvel[:] = 0.0
        self._mj.mj_forward(self.model, self.data)

    def calm(self, seconds: float) -> None:
        """Let the objects come to rest, with much of their speed taken away on the way."""
        for _ in range(max(1, round(seconds / 0.02))):
            self.advance(0.02)
            for dof in self._dofs:
                self.data.qvel[dof : dof + 6] *= 0.85

    def judge_alone(self) -> None:
        """From now on every object touches nothing but its own target."""
        self._contacts.judge_alone()

    # --- details ---------------------------------------------------------------------------

    def _check(self) -> None:
        qpos = self.data.qpos
        if not np.isfinite(qpos).all() or not np.isfinite(self.data.qvel).all():
            raise DivergedError("the physics diverged: positions or speeds are not finite.")
        for start, item in zip(self._qpos, self.items, strict=True):
            spot = qpos[start : start + 3]
            if np.abs(spot[:2]).max() > ROOM or spot[2] > ROOM:
                raise DivergedError(
                    f"the {item.thing.name} was thrown away: it is at "
                    f"{np.round(spot, 2).tolist()} m."
                )

    @property
    def _item(self) -> int:
        return self._bodies[self._focus]

    @property
    def _item_v(self) -> int:
        return self._dofs[self._focus]

    def _write_item(self, data: Any, T_scene_item: Pose, pair: int | None = None) -> None:
        start = self._qpos[self._focus if pair is None else pair]
        data.qpos[start : start + 3] = T_scene_item[:3, 3]
        data.qpos[start + 3 : start + 7] = quat_wxyz_of(self._mj, T_scene_item)

    def _body_pose(self, body: int, data: Any = None) -> Pose:
        state = self.data if data is None else data
        pose = np.eye(4)
        pose[:3, :3] = state.xmat[body].reshape(3, 3)
        pose[:3, 3] = state.xpos[body]
        return pose
