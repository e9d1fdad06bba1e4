"""Things that have nothing to do with the task: nine families, any size, colour and pose."""

from __future__ import annotations

from collections.abc import Callable
from colorsys import hsv_to_rgb

import numpy as np
from jaxtyping import Float

from handful.errors import OptionError, unknown_name_message
from handful.render import Color, ColoredMesh, box_mesh, joined, revolved_mesh, tube_mesh
from handful.sim.objects._draws import random_color
from handful.sim.objects._parts import Thing, placed

Maker = Callable[[np.random.Generator, Color], list[ColoredMesh]]
_BLACK: Color = (0.1, 0.1, 0.1)
_ORANGE: Color = (0.95, 0.55, 0.10)


def draw_distractor(
    rng: np.random.Generator, shrink: float = 1.0, family: str | None = None
) -> tuple[Thing, Float[np.ndarray, "3 3"]]:
    """A random thing and a rotation for it.

    Args:
        rng: For every choice.
        shrink: Scales its size.
        family: One of `DISTRACTOR_FAMILIES`; any if not given.

    Raises:
        OptionError: There is no such family.
    """
    import trimesh

    name = family or sorted(DISTRACTOR_FAMILIES)[int(rng.integers(len(DISTRACTOR_FAMILIES)))]
    if name not in DISTRACTOR_FAMILIES:
        raise OptionError(unknown_name_message("family", name, DISTRACTOR_FAMILIES))
    meshes = DISTRACTOR_FAMILIES[name](rng, random_color(rng))
    corners = np.concatenate([mesh.vertices for mesh in meshes])
    middle = (corners.min(axis=0) + corners.max(axis=0)) / 2
    scaled = tuple(
        ColoredMesh((mesh.vertices - middle) * shrink, mesh.faces, mesh.color) for mesh in meshes
    )
    turns = rng.normal(size=4)
    rotation = trimesh.transformations.quaternion_matrix(turns / np.linalg.norm(turns))[:3, :3]
    return Thing(name, scaled, (), 0.1), np.asarray(rotation)


def _blob(rng: np.random.Generator, color: Color) -> list[ColoredMesh]:
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=3, radius=1.0)
    waves = rng.normal(size=(5, 3)) * 2.0
    bumps = 1.0 + 0.12 * np.sin(ball.vertices @ waves.T + rng.uniform(0, 6, 5)).sum(axis=1)
    ball.vertices *= (bumps * rng.uniform(0.025, 0.04))[:, None]
    return [ColoredMesh.from_trimesh(ball, color)]


def _torus(rng: np.random.Generator, color: Color) -> list[ColoredMesh]:
    import trimesh

    big = rng.uniform(0.025, 0.045)
    ring = trimesh.creation.torus(big, rng.uniform(0.2, 0.4) * big)
    return [ColoredMesh.from_trimesh(ring, color)]


def _brick(rng: np.random.Generator, color: Color) -> list[ColoredMesh]:
    """A toy brick with studs."""
    pitch, rows, columns = rng.uniform(0.014, 0.02), 2, int(rng.integers(2, 5))
    height = 1.2 * pitch
    parts = [box_mesh((0, 0, 0), (columns * pitch, rows * pitch, height), color)]
    knob = np.array([[0, 0], [0.3, 0], [0.3, 0.25], [0, 0.25]]) * pitch
    for row in range(rows):
        for column in range(columns):
            spot = placed(((column + 0.5) * pitch, (row + 0.5) * pitch, height))
            parts.append(revolved_mesh(knob, color, 16).transformed(spot))
    return [joined(parts)]


def _duck(rng: np.random.Generator, color: Color) -> list[ColoredMesh]:
    """A bath duck of ellipsoids."""
    size = rng.uniform(0.028, 0.04)
    yellow = hsv_to_rgb(rng.uniform(0.1, 0.18), 0.9, 0.95)
    body = [
        _ellipsoid((1.25, 0.85, 0.75), (0, 0, 0), color if rng.uniform() < 0.5 else yellow),
        _ellipsoid((0.55, 0.52, 0.55), (0.8, 0, 0.95), color),
        _ellipsoid((0.35, 0.25, 0.12), (1.35, 0, 0.9), _ORANGE),
        _ellipsoid((0.5, 0.25, 0.3), (-1.15, 0, 0.45), color),
        _ellipsoid((0.09, 0.5, 0.09), (1.05, 0, 1.12), _BLACK),
    ]
    return [ColoredMesh(mesh.vertices * size, mesh.faces, mesh.color) for mesh in body]


def _box(rng: np.random.Generator, color: Color) -> list[ColoredMesh]:
    x, y, z = rng.uniform(0.025, 0.085, size=3)
    band = box_mesh((-0.001, y * 0.35, -0.001), (x + 0.001, y * 0.65, z + 0.001), random_color(rng))
    return [box_mesh((0, 0, 0), (x, y, z), color), band]


def _cone(rng: np.random.Generator, color: Color) -> list[ColoredMesh]:
    """A traffic cone: a plate, and a cone in two colours."""
    r, h = rng.uniform(0.022, 0.034), rng.uniform(0.055, 0.09)
    plate = box_mesh((-1.3 * r, -1.3 * r, 0), (1.3 * r, 1.3 * r, 0.1 * h), color)
    low = np.array([[0, 0.1], [1.0, 0.1], [0.6, 0.5], [0, 0.5]]) * [r, h]
    high = np.array([[0, 0.5], [0.6, 0.5], [0.15, 1.0], [0, 1.0]]) * [r, h]
    return [plate, revolved_mesh(low, color, 32), revolved_mesh(high, (0.9, 0.9, 0.9), 32)]


def _hammer(rng: np.random.Generator, color: Color) -> list[ColoredMesh]:
    length, head = rng.uniform(0.10, 0.15), rng.uniform(0.012, 0.017)
    path = np.stack([np.zeros(6), np.zeros(6), np.linspace(0, length, 6)], axis=1)
    grip = tube_mesh(path, 0.6 * head * np.array([1, 1.1, 0.9, 0.8, 0.7, 0.7]), color)
    steel = box_mesh((-2.2 * head, -head, length), (2.2 * head, head, length + 2 * head), _BLACK)
    return [grip, steel]


def _spanner(rng: np.random.Generator, color: Color) -> list[ColoredMesh]:
    """A bar with an open jaw at one end and a ring at the other."""
    import trimesh

    length, wide = rng.uniform(0.09, 0.13), rng.uniform(0.006, 0.009)
    thick = 0.5 * wide
    bar = box_mesh((-wide, 0, -thick), (wide, length, thick), color)
    end, up = length + 3.5 * wide, thick
    jaws = [
        box_mesh((middle - wide, length, -up), (middle + wide, end, up), color)
        for middle in (-2.4 * wide, 2.4 * wide)
    ]
    bridge = box_mesh((-3.2 * wide, length - 2 * wide, -thick), (3.2 * wide, length, thick), color)
    ring = trimesh.creation.annulus(1.4 * wide, 2.6 * wide, 2 * thick)
    hole = ColoredMesh.from_trimesh(ring, color).transformed(placed((0, -2.0 * wide, 0)))
    return [joined([bar, *jaws, bridge, hole])]


def _pyramid(rng: np.random.Generator, color: Color) -> list[ColoredMesh]:
    """Any convex crystal of a dozen corners."""
    import trimesh

    corners = rng.normal(size=(12, 3))
    corners *= rng.uniform(0.025, 0.042) / np.linalg.norm(corners, axis=1, keepdims=True)
    return [ColoredMesh.from_trimesh(trimesh.convex.convex_hull(corners), color)]


def _spring(rng: np.random.Generator, color: Color) -> list[ColoredMesh]:
    angle = np.linspace(0, 2 * np.pi * rng.uniform(3, 5), 120)
    r = rng.uniform(0.016, 0.026)
    path = np.stack([r * np.cos(angle), r * np.sin(angle), 0.0022 * angle], axis=1)
    return [tube_mesh(path, 0.0032, color, sides=8)]


def _ellipsoid(
    axes: tuple[float, float, float], at: tuple[float, float, float], color: Color
) -> ColoredMesh:
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=2, radius=1.0)
    return ColoredMesh(np.array(ball.vertices) * axes + at, np.array(ball.faces), color)


DISTRACTOR_FAMILIES: dict[str, Maker] = {
    "blob": _blob,
    "box": _box,
    "brick": _brick,
    "cone": _cone,
    "crystal": _pyramid,
    "duck": _duck,
    "hammer": _hammer,
    "spanner": _spanner,
    "spring": _spring,
    "torus": _torus,
}
"""Closed registry of what can stand around."""
