"""Meshes to draw with: boxes, tubes, arrows, frames, and the hand of the procedural sample.

`trimesh` is imported by the functions that need it: it takes longer to load than all of `handful`,
and training and inference do not need it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Shaped

from handful.errors import GeometryError
from handful.render._mesh import Color, ColoredMesh, joined

AXIS_COLORS: tuple[Color, Color, Color] = ((0.86, 0.2, 0.18), (0.2, 0.62, 0.25), (0.17, 0.38, 0.86))
"""Colours of the x, y and z axis of a drawn frame."""

ORANGE: Color = (0.95, 0.55, 0.1)
"""Stands out from what cameras see on tables."""


def box_mesh(
    lower: tuple[float, float, float], upper: tuple[float, float, float], color: Color
) -> ColoredMesh:
    """An axis-aligned box between two corners, metres."""
    import trimesh

    box = trimesh.creation.box(bounds=np.array([lower, upper], dtype=np.float64))
    return ColoredMesh.from_trimesh(box, color)


def revolved_mesh(
    profile: Float[np.ndarray, "corners 2"], color: Color, sides: int = 48
) -> ColoredMesh:
    """The solid of revolution about z of a line of (radius, height) corners, metres."""
    import trimesh

    solid = trimesh.creation.revolve(profile, sections=sides)
    return ColoredMesh.from_trimesh(solid, color)


def tube_mesh(
    path: Float[np.ndarray, "corners 3"],
    radius: float | Float[np.ndarray, "corners"],
    color: Color,
    sides: int = 16,
) -> ColoredMesh:
    """A round tube with flat ends along a smooth path, metres.

    Args:
        path: Middle line [corners, 3]; consecutive corners differ.
        radius: Of the tube, one for all or one per corner.
        color: Of the tube.
        sides: Corners of its cross-section.
    """
    rings = (
        path[:, None, :] + _circles(path, sides) * np.broadcast_to(radius, len(path))[:, None, None]
    )
    vertices = np.concatenate([rings.reshape(-1, 3), path[:1], path[-1:]])
    return ColoredMesh(vertices, _tube_faces(len(path), sides), color)


def arrow_mesh(
    start: Shaped[np.ndarray, "3"],
    end: Shaped[np.ndarray, "3"],
    color: Color = ORANGE,
    width: float | None = None,
) -> ColoredMesh:
    """An arrow from `start` to `end`, metres; for example a type-1 descriptor.

    Args:
        start: Where it begins.
        end: Where its tip is.
        color: Of the arrow.
        width: Diameter of the shaft, metres; a fourteenth of the length if not given.
    """
    length = float(np.linalg.norm(end - start))
    if not length > 0.0:
        raise GeometryError(f"an arrow from {start} to {end} has no direction: move one end.")
    ends = np.stack([start, end]).astype(np.float64)
    return arrows_mesh(ends[:1], ends[1:], color, width or length / 14, sides=16)


def arrows_mesh(
    starts: Float[np.ndarray, "arrows 3"],
    ends: Float[np.ndarray, "arrows 3"],
    color: Color = ORANGE,
    width: float = 0.002,
    sides: int = 8,
) -> ColoredMesh:
    """Many arrows as one mesh, metres; those without a length are left out.

    Args:
        starts: Where they begin [arrows, 3].
        ends: Where their tips are [arrows, 3].
        color: Of all of them.
        width: Diameter of the shafts, metres.
        sides: Corners of their cross-section.
    """
    reach = ends - starts
    length = np.linalg.norm(reach, axis=1)
    starts, reach, length = (values[length > 0.0] for values in (starts, reach, length))
    shaft = width / 2
    neck = 1.0 - np.minimum(6.0 * shaft / np.maximum(length, 1e-300), 0.6)
    along = np.stack([0.0 * neck, neck, neck + 1e-4, 0.0 * neck + 1.0], axis=1)
    middle = starts[:, None] + along[:, :, None] * reach[:, None]
    radius = shaft * np.array([1.0, 1.0, 2.4, 0.02])
    circles = _circles_across(reach, sides)
    rings = middle[:, :, None] + radius[:, None, None] * circles[:, None]
    corners = np.concatenate([rings.reshape(len(rings), 4 * sides, 3), middle[:, [0, -1]]], axis=1)
    first = corners.shape[1] * np.arange(len(corners))
    faces = first[:, None, None] + _tube_faces(4, sides)
    return ColoredMesh(corners.reshape(-1, 3), faces.reshape(-1, 3), color)


def ball_mesh(
    center: Shaped[np.ndarray, "3"], radius: float, color: Color, opacity: float = 1.0
) -> ColoredMesh:
    """A ball, metres."""
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=3, radius=radius)
    mesh = ColoredMesh.from_trimesh(ball, color, opacity)
    return replace(mesh, vertices=mesh.vertices + center)


def frame_meshes(pose: Shaped[np.ndarray, "4 4"], size: float = 0.05) -> list[ColoredMesh]:
    """The axes of a frame as arrows: x red, y green, z blue.

    Args:
        pose: T_scene_frame [4, 4].
        size: Length of the arrows, metres.
    """
    origin = pose[:3, 3]
    return [
        arrow_mesh(origin, origin + size * pose[:3, axis], AXIS_COLORS[axis]) for axis in range(3)
    ]


def gripper_mesh(
    tip: float = 0.15,
    opening: float = 0.08,
    axis: str = "x",
    color: Color = (0.62, 0.62, 0.64),
    opacity: float = 1.0,
) -> ColoredMesh:
    """The parallel gripper of the procedural sample: approach along +z, wrist at the origin.

    Pictures draw the hand that a demonstration set describes instead (`viz.hand_mesh`).

    Args:
        tip: Height z of the finger tips, metres.
        opening: Free distance between the fingers, metres.
        axis: Along which they open.
        color: Of the gripper.
        opacity: See `ColoredMesh`.
    """
    scale = tip / 0.15
    thick, depth, palm = 0.009 * scale, 0.011 * scale, (0.02 * scale, 0.065 * scale)
    reach = max(0.062 * scale, opening / 2 + thick)
    wrist = scale * np.array([[0.0, -0.02], [0.03, -0.02], [0.03, 0.02], [0.0, 0.02]])
    parts = [
        revolved_mesh(wrist, color, sides=32),
        box_mesh((-reach, -0.028 * scale, palm[0]), (reach, 0.028 * scale, palm[1]), color),
        box_mesh((opening / 2, -depth, palm[1]), (opening / 2 + thick, depth, tip), color),
        box_mesh((-opening / 2 - thick, -depth, palm[1]), (-opening / 2, depth, tip), color),
    ]
    mesh = joined(parts).recolored(color, opacity)
    if axis == "x":
        return mesh
    quarter_turn = np.eye(4)[[1, 0, 2, 3]] * np.array([[-1.0], [1.0], [1.0], [1.0]])
    return mesh.transformed(quarter_turn)


def _circles_across(
    directions: Float[np.ndarray, "n 3"], sides: int
) -> Float[np.ndarray, "n sides 3"]:
    """Unit circles around directions of any length but 0."""
    forward = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    right = np.cross(forward, np.eye(3)[np.abs(forward).argmin(axis=1)])
    right /= np.linalg.norm(right, axis=1, keepdims=True)
    up = np.cross(forward, right)
    angle = 2.0 * np.pi * np.arange(sides)[:, None] / sides
    return np.cos(angle) * right[:, None] + np.sin(angle) * up[:, None]


def _circles(path: Float[np.ndarray, "corners 3"], sides: int) -> Float[np.ndarray, "corners s 3"]:
    """Unit circles [corners, sides, 3] across a path, without twist from one to the next."""
    tangent = np.gradient(path, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    side = np.eye(3)[int(np.abs(tangent[0]).argmin())]
    frames = []
    for direction in tangent:
        side = side - direction * (side @ direction)
        side /= np.linalg.norm(side)
        frames.append([side, np.cross(direction, side)])
    angle = 2.0 * np.pi * np.arange(sides) / sides
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.einsum("sk,ckx->csx", circle, np.array(frames))


def _tube_faces(rings: int, sides: int) -> Shaped[np.ndarray, "faces 3"]:
    """Two triangles per patch between rings, and a fan at each end; outward."""
    ring, side = np.meshgrid(np.arange(rings - 1), np.arange(sides), indexing="ij")
    here, next_ = ring * sides + side, ring * sides + (side + 1) % sides
    wall = [[here, next_, here + sides], [next_, next_ + sides, here + sides]]
    first, turn = np.arange(sides), (np.arange(sides) + 1) % sides
    last, middle = (rings - 1) * sides, np.full(sides, rings * sides)
    ends = [[turn, first, middle], [last + first, last + turn, middle + 1]]
    patches = [np.stack([part.reshape(-1) for part in face], axis=1) for face in wall + ends]
    return np.concatenate(patches)
