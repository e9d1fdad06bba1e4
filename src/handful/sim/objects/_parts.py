"""Convex pieces that things are made of where they touch, and things made of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from handful.render import Color, ColoredMesh

Pose = Float[np.ndarray, "4 4"]
Vector = Float[np.ndarray, "3"]
Triple = tuple[float | int, float | int, float | int] | Float[np.ndarray, "3"]


@dataclass(frozen=True, eq=False)
class Part:
    """One convex piece in the frame of its thing.

    Attributes:
        kind: `box`, `cylinder`, `capsule`, `sphere`, `ellipsoid` or `convex`.
        size: As in MuJoCo, metres: half sides of a box; radius and half length of a cylinder or
            capsule (without its caps) along z; radius; half axes. Empty for `convex`.
        T_thing_part: Where it is.
        vertices: Corners of a `convex` piece in its own frame, metres.
    """

    kind: str
    size: tuple[float, ...]
    T_thing_part: Pose
    vertices: Float[np.ndarray, "corners 3"] | None = None

    @property
    def volume(self) -> float:
        """Cubic metres."""
        s = self.size
        if self.kind == "box":
            return 8.0 * s[0] * s[1] * s[2]
        if self.kind == "cylinder":
            return 2.0 * np.pi * s[0] ** 2 * s[1]
        if self.kind == "capsule":
            return np.pi * s[0] ** 2 * (2.0 * s[1] + 4.0 / 3.0 * s[0])
        if self.kind == "convex":
            import trimesh

            return float(trimesh.convex.convex_hull(np.asarray(self.vertices)).volume)
        axes = s if self.kind == "ellipsoid" else (s[0],) * 3
        return 4.0 / 3.0 * np.pi * axes[0] * axes[1] * axes[2]


@dataclass(frozen=True, eq=False)
class Rim:
    """Where a wall can be taken: samples around the edge of an opening, in the thing's frame.

    Attributes:
        points: Middle of the wall at the edge [samples, 3], metres.
        down: Unit vectors along the wall, away from the edge.
        outward: Unit vectors across the wall, at right angles to `down`.
        depth: How far the finger tips may go along `down`, metres.
    """

    points: Float[np.ndarray, "samples 3"]
    down: Float[np.ndarray, "samples 3"]
    outward: Float[np.ndarray, "samples 3"]
    depth: float = 0.022


@dataclass(frozen=True, eq=False)
class Handle:
    """A hole that an arm can go through, and the bar around it; in the thing's frame.

    Attributes:
        hole: Middle of the largest ball that fits into the hole, metres.
        axis: Unit vector through the hole.
        radius: Of that ball, metres.
        grip: Middle of the bar where fingers can take it, metres.
        outward: Unit vector from the hole to the bar.
    """

    hole: Vector
    axis: Vector
    radius: float
    grip: Vector
    outward: Vector


@dataclass(frozen=True)
class Neck:
    """What fingers take from above: a roundish piece around the thing's z axis.

    Attributes:
        top: Height of its upper end, metres.
        radius: Largest distance of its surface from the axis, metres.
        length: How far below the top the fingers may go, metres.
        center: x and y of its axis, metres.
    """

    top: float
    radius: float
    length: float
    center: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Thing:
    """A rigid body: how it looks, where it touches, and what an oracle knows about it.

    Its frame has z up when it stands, with the lowest point at z = 0.

    Attributes:
        name: For people.
        meshes: How it looks.
        parts: Where it touches.
        mass: Kilograms.
        rim: The edge of its opening, if it has one.
        handle: Its handle, if it has one.
        neck: Its neck, if it has one.
    """

    name: str
    meshes: tuple[ColoredMesh, ...]
    parts: tuple[Part, ...]
    mass: float
    rim: Rim | None = None
    handle: Handle | None = None
    neck: Neck | None = None
    _bounds: list[Float[np.ndarray, "2 3"]] = field(default_factory=list, repr=False)

    @property
    def bounds(self) -> Float[np.ndarray, "2 3"]:
        """Lowest and highest corner of the standing thing, metres."""
        if not self._bounds:
            corners = np.concatenate([mesh.vertices for mesh in self.meshes])
            self._bounds.append(np.stack([corners.min(axis=0), corners.max(axis=0)]))
        return self._bounds[0]

    @property
    def vertices(self) -> Float[np.ndarray, "corners 3"]:
        """Corners of everything that is seen, metres."""
        return np.concatenate([mesh.vertices for mesh in self.meshes])

    def footprint(self, T_scene_thing: Pose) -> float:
        """Largest distance from the frame's origin, seen from above, metres."""
        flat = self.vertices @ T_scene_thing[:3, :3].T
        return float(np.linalg.norm(flat[:, :2], axis=1).max())

    def lowest(self, rotation: Float[np.ndarray, "3 3"]) -> float:
        """Height of the lowest point when turned by `rotation`, metres."""
        return float((self.vertices @ rotation[2]).min())

    def lowest_at(self, T_scene_thing: Pose) -> float:
        """Height of the lowest point of the thing at a pose, metres."""
        return self.lowest(T_scene_thing[:3, :3]) + float(T_scene_thing[2, 3])

    def recolored(self, color: Color) -> Thing:
        """The same thing in one colour."""
        return replace(self, meshes=tuple(mesh.recolored(color) for mesh in self.meshes))


def placed(position: Triple, rotation: Float[np.ndarray, "3 3"] | None = None) -> Pose:
    """A rigid motion from a position (metres) and a rotation."""
    pose = np.eye(4)
    pose[:3, 3] = position
    if rotation is not None:
        pose[:3, :3] = rotation
    return pose


def box_part(half: Triple, position: Triple, yaw: float = 0.0) -> Part:
    """A box with these half sides, turned by `yaw` about z."""
    turn = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1.0]])
    return Part("box", (float(half[0]), float(half[1]), float(half[2])), placed(position, turn))


def capsule_parts(path: Float[np.ndarray, "corners 3"], radius: float) -> list[Part]:
    """A chain of capsules along a path."""
    return [_along("capsule", a, b, radius) for a, b in pairwise(path)]


def cylinder_part(start: Vector, end: Vector, radius: float) -> Part:
    """A cylinder between two points."""
    return _along("cylinder", start, end, radius)


def prism_parts(radius: float, low: float, high: float, sides: int = 12) -> list[Part]:
    """An upright regular prism as a union of boxes; `radius` is to the middle of its sides.

    A box from each side to the opposite one: together they are exactly the prism, and boxes
    touch boxes (fingers, trays) at up to eight points, which holds a grasp better than the one or
    two points at which round pieces touch.
    """
    half = radius * np.tan(np.pi / sides)
    return [
        box_part((radius, half, (high - low) / 2), (0.0, 0.0, (low + high) / 2), yaw)
        for yaw in 2.0 * np.pi * np.arange(sides // 2) / sides
    ]


def wall_parts(
    profile: Float[np.ndarray, "corners 2"], wall: float, staves: int, turn: float = 0.0
) -> list[Part]:
    """The wall of a vessel as rings of flat staves.

    Args:
        profile: (radius, height) of the middle of the wall, from low to high, metres.
        wall: Thickness, metres.
        staves: How many in each ring.
        turn: Angle of the first, radians.
    """
    parts = []
    for (r0, z0), (r1, z1) in pairwise(profile):
        length = float(np.hypot(r1 - r0, z1 - z0))
        width = max(r0, r1) * np.tan(np.pi / staves)
        rise = np.array([(r1 - r0) / length, (z1 - z0) / length])
        for angle in turn + 2.0 * np.pi * np.arange(staves) / staves:
            out = np.array([np.cos(angle), np.sin(angle), 0.0])
            up = rise[0] * out + np.array([0.0, 0.0, rise[1]])
            across = np.array([-np.sin(angle), np.cos(angle), 0.0])
            rotation = np.stack([np.cross(across, up), across, up], axis=1)
            middle = (r0 + r1) / 2 * out + np.array([0.0, 0.0, (z0 + z1) / 2])
            parts.append(Part("box", (wall / 2, width, length / 2), placed(middle, rotation)))
    return parts


def frustum_part(low: tuple[float, float], high: tuple[float, float], sides: int = 16) -> Part:
    """A convex piece between two circles (radius, height) around the z axis, metres."""
    angle = 2.0 * np.pi * (np.arange(sides) + 0.5) / sides
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros(sides)], axis=1)
    rings = [circle * r + np.array([0.0, 0.0, z]) for r, z in (low, high)]
    return Part("convex", (), np.eye(4), np.concatenate(rings))


def _along(kind: str, start: Vector, end: Vector, radius: float) -> Part:
    axis = end - start
    length = float(np.linalg.norm(axis))
    axis = axis / length
    side = np.cross(axis, np.eye(3)[int(np.abs(axis).argmin())])
    side /= np.linalg.norm(side)
    rotation = np.stack([side, np.cross(axis, side), axis], axis=1)
    return Part(kind, (radius, length / 2), placed((start + end) / 2, rotation))
