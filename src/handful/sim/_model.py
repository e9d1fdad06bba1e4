"""What the MuJoCo model of a scene is made of: the room, and things as bodies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from handful.sim._hand import GROUP_OBJECT, GROUP_SCENE, GROUP_TOUCH
from handful.sim._physics import Role, judged_bit, touch_settings
from handful.sim.objects import Part, Pose, Thing

TABLE_HALF = 0.4
TABLE_GREY = (0.36, 0.36, 0.38, 1.0)


@dataclass(frozen=True, eq=False)
class Placed:
    """A thing and where it is.

    Attributes:
        thing: The thing.
        T_scene_thing: Its pose.
    """

    thing: Thing
    T_scene_thing: Pose


def furnish(mj: Any, spec: Any) -> None:
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


def add_thing(
    mj: Any, spec: Any, placed: Placed, name: str, role: Role, pair: int | None = None
) -> None:
    """Add a thing as a body.

    Args:
        mj: The package `mujoco`.
        spec: A `mujoco.MjSpec` that has the hand.
        placed: The thing and its pose.
        name: Of the body.
        role: Decides what it touches. Objects move freely, and each has a constraint
            `carry_NAME` that can fix it to the hand.
        pair: Number of the pair that an object or target belongs to.
    """
    pose = placed.T_scene_thing
    body = spec.worldbody.add_body(name=name, pos=pose[:3, 3], quat=quat_wxyz_of(mj, pose))
    if role is Role.OBJECT:
        body.add_freejoint(name=name)
        carry = spec.add_equality(
            type=mj.mjtEq.mjEQ_WELD, name1="hand", name2=name, name=f"carry_{name}"
        )
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
        settings = touch_settings(role)
        if role is Role.TARGET and pair is not None:
            settings["conaffinity"] |= judged_bit(pair)
        _add_part(mj, spec, body, part, f"{name}_part{number}", mass, settings)


def quat_wxyz_of(mj: Any, pose: Pose) -> Float[np.ndarray, "4"]:
    """The rotation of a pose as a quaternion."""
    quat_wxyz = np.zeros(4)
    mj.mju_mat2Quat(quat_wxyz, np.ascontiguousarray(pose[:3, :3]).reshape(9))
    return quat_wxyz


def _add_part(
    mj: Any, spec: Any, body: Any, part: Part, name: str, mass: float, settings: dict[str, Any]
) -> None:
    more: dict[str, Any] = {"size": [*part.size, 0.0, 0.0][:3]}
    kind = "mesh" if part.kind == "convex" else part.kind
    if part.vertices is not None:
        spec.add_mesh(name=name, uservert=part.vertices.reshape(-1).astype(np.float32))
        more = {"meshname": name}
    body.add_geom(
        type=getattr(mj.mjtGeom, f"mjGEOM_{kind.upper()}"), pos=part.T_thing_part[:3, 3],
        quat=quat_wxyz_of(mj, part.T_thing_part), group=GROUP_TOUCH, mass=mass, **more, **settings,
    )  # fmt: skip
