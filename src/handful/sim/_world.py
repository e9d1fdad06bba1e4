"""One scene in MuJoCo: what stands where, stepping, moving things at once, and who touches whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from handful.sim._arm import (
    CLOSED_TARGET,
    GROUP_OBJECT,
    GROUP_SCENE,
    GROUP_TOUCH,
    HOME,
    OPENING,
    add_arm,
    finger_setpoint,
    open_hand_points,
)
from handful.sim._errors import DivergedError
from handful.sim._physics import COLLIDE, JUDGED, TIMESTEP, Role, physics, set_up, touch_settings
from handful.sim.objects import Part, Pose, Thing

ROOM = 1.5
"""Metres: an object farther from the table's middle was thrown away."""
FRAME_TIME = 1.0 / 25.0
"""Seconds of simulated time between the frames of a video."""
_HAND = open_hand_points()
TABLE_HALF = 0.4
TABLE_GREY = (0.36, 0.36, 0.38, 1.0)


@dataclass(frozen=True, eq=False)
class Placed:
    """A thing and where it is: T_scene_thing."""

    thing: Thing
    pose: Pose


class World:
    """The robot, a table, one object that moves, one target, and what else stands around."""

    def __init__(
        self,
        item: Placed,
        target: Placed,
        supports: Sequence[Placed] = (),
        distractors: Sequence[Placed] = (),
    ) -> None:
        """Build the model; the arm is at home with open fingers.

        Args:
            item: The object to pick and place.
            target: Hanger or tray; does not move.
            supports: Blocks that carry the object; do not move.
            distractors: Only seen.
        """
        self._mj = physics()
        self.item, self.target, self.supports = item, target, tuple(supports)
        spec = self._mj.MjSpec()
        set_up(spec, self._mj)
        _furnish(self._mj, spec)
        add_arm(spec, COLLIDE[Role.ROBOT])
        _add_thing(self._mj, spec, target, "target", Role.TARGET)
        for number, support in enumerate(supports):
            _add_thing(self._mj, spec, support, f"support{number}", Role.FURNITURE)
        for number, distractor in enumerate(distractors):
            _add_thing(self._mj, spec, distractor, f"distractor{number}", Role.DISTRACTOR)
        _add_thing(self._mj, spec, item, "item", Role.OBJECT, moves=True)
        self.model: Any = spec.compile()
        self.data: Any = self._mj.MjData(self.model)
        self._probe: Any = self._mj.MjData(self.model)
        self._hand = self.model.body("hand").id
        self._item = self.model.body("item").id
        self._item_q = int(self.model.joint("item").qposadr[0])
        self._item_v = int(self.model.joint("item").dofadr[0])
        self._roles = np.array([self._role(geom) for geom in range(self.model.ngeom)])
        self.on_frame: Callable[[], None] | None = None
        self._next_frame = 0.0
        self.reset()

    def reset(self) -> None:
        """Everything as at the beginning."""
        self._mj.mj_resetData(self.model, self.data)
        self.data.qpos[:7] = HOME
        self.data.qpos[7:9] = OPENING / 2
        self.data.ctrl[:7] = HOME
        self.data.ctrl[7] = finger_setpoint(OPENING)
        self._write_item(self.data, self.item.pose)
        self._mj.mj_forward(self.model, self.data)

    # --- looking ---------------------------------------------------------------------------

    @property
    def hand_pose(self) -> Pose:
        """T_scene_gripper."""
        return self._body_pose(self._hand)

    @property
    def item_pose(self) -> Pose:
        """T_scene_item."""
        return self._body_pose(self._item)

    @property
    def item_height(self) -> float:
        """Of the object's centre of mass, metres."""
        return float(self.data.xipos[self._item][2])

    @property
    def item_speed(self) -> float:
        """Of the object's origin, metres per second."""
        return float(np.linalg.norm(self.data.qvel[self._item_v : self._item_v + 3]))

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
            other: Another role.
            deeper: Depth of penetration that is still forgiven.
            data: Another state of the same model; the present one if not given.
        """
        state = self.data if data is None else data
        if not state.ncon:
            return False
        roles = self._roles[state.contact.geom]
        pair = ((roles[:, 0] == one.value) & (roles[:, 1] == other.value)) | (
            (roles[:, 1] == one.value) & (roles[:, 0] == other.value)
        )
        return bool((state.contact.dist[pair] < -deeper).any())

    def hand_in_furniture(self, pose: Pose) -> bool:
        """Whether an open hand at T_scene_gripper is surely in table or support; quick."""
        points = _HAND @ pose[:3, :3].T + pose[:3, 3]
        if points[:, 2].min() < -1e-4:
            return True
        for support in self.supports:
            local = (points - support.pose[:3, 3]) @ support.pose[:3, :3]
            low, high = support.thing.bounds
            if ((local > low + 1e-4) & (local < high - 1e-4)).all(axis=1).any():
                return True
        return False

    def imagine(
        self,
        joints: Float[np.ndarray, "7"],
        gap: float | None = None,
        held: Pose | None = None,
        item: Pose | None = None,
    ) -> Any:
        """The state, contacts included, with arm or object elsewhere; the world itself stays.

        Args:
            joints: Angles of the arm.
            gap: Distance between the fingers, metres; as now if not given.
            held: T_gripper_item of an object that goes with the hand; it stays if not given.
            item: T_scene_item of an object that is put elsewhere.
        """
        probe = self._probe
        probe.qpos[:] = self.data.qpos
        probe.qvel[:] = 0.0
        probe.qpos[:7] = joints
        if gap is not None:
            probe.qpos[7:9] = gap / 2
        if held is not None:
            self._mj.mj_kinematics(self.model, probe)
            self._write_item(probe, self._body_pose(self._hand, probe) @ held)
        if item is not None:
            self._write_item(probe, item)
        self._mj.mj_fwdPosition(self.model, probe)
        return probe

    def rehearse(self, item: Pose, seconds: float) -> Pose | None:
        """Where the object comes to if it is let go at T_scene_item; the world itself stays.

        The robot is at home and touches nothing.

        Returns:
            T_scene_item after that time, or None if the target does not hold the object then.
        """
        state = self.imagine(HOME, OPENING, item=item)
        state.ctrl[:7], state.ctrl[7] = HOME, finger_setpoint(OPENING)
        state.qacc_warmstart[:] = 0.0
        self._mj.mj_step(self.model, state, round(seconds / TIMESTEP))
        if not np.isfinite(state.qpos).all() or not self.touching(
            Role.OBJECT, Role.TARGET, data=state
        ):
            return None
        return self._body_pose(self._item, state)

    # --- moving ----------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Let time pass with the motors as they are.

        Raises:
            DivergedError: The state is not finite, or the object left the room.
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
        start, end = float(self.data.qpos[7]), finger_setpoint(OPENING)
        for share in np.linspace(0.0, 1.0, 20):
            self.data.ctrl[7] = start + share * (end - start)
            self.advance(seconds / 20)

    def teleport(self, joints: Float[np.ndarray, "7"], holding: bool) -> None:
        """Put the arm elsewhere at once; what it holds goes with it. All speeds become zero."""
        held = np.linalg.inv(self.hand_pose) @ self.item_pose
        self.data.qpos[:7] = joints
        self.data.ctrl[:7] = joints
        self.data.qvel[:] = 0.0
        self._mj.mj_kinematics(self.model, self.data)
        if holding:
            self._write_item(self.data, self.hand_pose @ held)
        self._mj.mj_forward(self.model, self.data)

    def weld(self, on: bool) -> None:
        """Fix the object to the hand as it is now, or free it (the paper's way of carrying)."""
        number = self.model.equality("carry").id
        relative = np.linalg.inv(self.hand_pose) @ self.item_pose
        self.model.eq_data[number, :3] = 0.0
        self.model.eq_data[number, 3:6] = relative[:3, 3]
        self.model.eq_data[number, 6:10] = self._quaternion(relative)
        self.data.eq_active[number] = int(on)

    def put_item(self, pose: Pose) -> None:
        """Put the object somewhere, at rest."""
        self._write_item(self.data, pose)
        self.data.qvel[self._item_v : self._item_v + 6] = 0.0
        self._mj.mj_forward(self.model, self.data)

    def calm(self, seconds: float) -> None:
        """Let the object come to rest, with much of its speed taken away on the way."""
        for _ in range(max(1, round(seconds / 0.02))):
            self.advance(0.02)
            self.data.qvel[self._item_v : self._item_v + 6] *= 0.85

    def judge_alone(self) -> None:
        """From now on the object touches nothing but the target."""
        mine = self._roles == Role.OBJECT.value
        touches = mine & (self.model.geom_contype > 0)
        self.model.geom_contype[touches] = JUDGED[0]
        self.model.geom_conaffinity[touches] = JUDGED[1]

    # --- details ---------------------------------------------------------------------------

    def _check(self) -> None:
        qpos = self.data.qpos
        if not np.isfinite(qpos).all() or not np.isfinite(self.data.qvel).all():
            raise DivergedError("the physics diverged: positions or speeds are not finite.")
        spot = qpos[self._item_q : self._item_q + 3]
        if np.abs(spot[:2]).max() > ROOM or spot[2] > ROOM:
            raise DivergedError(
                f"the object was thrown away: it is at {np.round(spot, 2).tolist()} m."
            )

    def _write_item(self, data: Any, pose: Pose) -> None:
        data.qpos[self._item_q : self._item_q + 3] = pose[:3, 3]
        data.qpos[self._item_q + 3 : self._item_q + 7] = self._quaternion(pose)

    def _quaternion(self, pose: Pose) -> Float[np.ndarray, "4"]:
        quat_wxyz = np.zeros(4)
        self._mj.mju_mat2Quat(quat_wxyz, np.ascontiguousarray(pose[:3, :3]).reshape(9))
        return quat_wxyz

    def _body_pose(self, body: int, data: Any = None) -> Pose:
        state = self.data if data is None else data
        pose = np.eye(4)
        pose[:3, :3] = state.xmat[body].reshape(3, 3)
        pose[:3, 3] = state.xpos[body]
        return pose

    def _role(self, geom: int) -> str:
        body = self.model.body(self.model.geom_bodyid[geom]).name
        if body == "item":
            return Role.OBJECT.value
        if body == "target":
            return Role.TARGET.value
        if body.startswith("distractor"):
            return Role.DISTRACTOR.value
        furniture = body == "world" or body.startswith("support")
        return Role.FURNITURE.value if furniture else Role.ROBOT.value


def _furnish(mj: Any, spec: Any) -> None:
    """Lights, the room's floor, and a table whose top is z = 0."""
    spec.visual.headlight.ambient = [0.42, 0.42, 0.42]
    spec.visual.headlight.diffuse = [0.38, 0.38, 0.38]
    spec.visual.headlight.specular = [0.05, 0.05, 0.05]
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1280, 960
    room = spec.worldbody
    room.add_light(
        pos=[0.5, -0.8, 2.0], dir=[-0.25, 0.4, -0.9], diffuse=[0.45, 0.45, 0.45],
        type=mj.mjtLightType.mjLIGHT_DIRECTIONAL, castshadow=True,
    )  # fmt: skip
    room.add_geom(
        type=mj.mjtGeom.mjGEOM_PLANE, size=[2, 2, 0.1], pos=[0, 0, 0], group=GROUP_TOUCH,
        name="table", **touch_settings(Role.FURNITURE),
    )  # fmt: skip
    room.add_geom(
        type=mj.mjtGeom.mjGEOM_BOX, size=[TABLE_HALF + 0.1, TABLE_HALF, 0.02],
        pos=[-0.1, 0, -0.02], rgba=TABLE_GREY, group=GROUP_SCENE, contype=0, conaffinity=0,
    )  # fmt: skip


def _add_thing(
    mj: Any, spec: Any, placed: Placed, name: str, role: Role, moves: bool = False
) -> None:
    quat_wxyz = np.zeros(4)
    mj.mju_mat2Quat(quat_wxyz, np.ascontiguousarray(placed.pose[:3, :3]).reshape(9))
    body = spec.worldbody.add_body(name=name, pos=placed.pose[:3, 3], quat=quat_wxyz)
    if moves:
        body.add_freejoint(name=name)
        carry = spec.add_equality(type=mj.mjtEq.mjEQ_WELD, name1="hand", name2=name, name="carry")
        carry.objtype = mj.mjtObj.mjOBJ_BODY
        carry.active = False
    group = GROUP_OBJECT if role is Role.OBJECT else GROUP_SCENE
    for number, mesh in enumerate(placed.thing.meshes):
        label = f"{name}_look{number}"
        spec.add_mesh(
            name=label, uservert=mesh.vertices.reshape(-1).astype(np.float32),
            userface=mesh.faces.reshape(-1).astype(np.int32),
            inertia=mj.mjtMeshInertia.mjMESH_INERTIA_SHELL,
        )  # fmt: skip
        body.add_geom(
            type=mj.mjtGeom.mjGEOM_MESH, meshname=label, rgba=[*mesh.color, 1.0], group=group,
            contype=0, conaffinity=0, mass=0.0,
        )  # fmt: skip
    if role is Role.DISTRACTOR:
        return
    volume = sum(part.volume for part in placed.thing.parts)
    for number, part in enumerate(placed.thing.parts):
        mass = placed.thing.mass * part.volume / volume
        _add_part(mj, spec, body, part, f"{name}_part{number}", role, mass)


def _add_part(
    mj: Any, spec: Any, body: Any, part: Part, name: str, role: Role, mass: float
) -> None:
    quat_wxyz = np.zeros(4)
    mj.mju_mat2Quat(quat_wxyz, np.ascontiguousarray(part.pose[:3, :3]).reshape(9))
    more: dict[str, Any] = {"size": [*part.size, 0.0, 0.0][:3]}
    kind = "mesh" if part.kind == "convex" else part.kind
    if part.vertices is not None:
        spec.add_mesh(name=name, uservert=part.vertices.reshape(-1).astype(np.float32))
        more = {"meshname": name}
    body.add_geom(
        type=getattr(mj.mjtGeom, f"mjGEOM_{kind.upper()}"), pos=part.pose[:3, 3], quat=quat_wxyz,
        group=GROUP_TOUCH, mass=mass, **more, **touch_settings(role),
    )  # fmt: skip
