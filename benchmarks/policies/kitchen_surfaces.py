"""Surfaces that kitchen shapes are made of: revolved profiles with cross-sections, and handles.

Lengths in metres, z up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import trimesh
from jaxtyping import Float
from scipy.interpolate import PchipInterpolator

Profile = Float[np.ndarray, "corners 2"]
"""(radius, height), metres."""


@dataclass(frozen=True)
class Section:
    """A cross-section, seen from above: a superellipse with flutes, of mean radius about one.

    Attributes:
        exponent: 2 is an ellipse; larger is more like a rectangle.
        aspect: Length over width.
        flutes: How many there are around.
        depth: Of a flute, as a share of the radius.
        turn: Angle of the long side, radians.
    """

    exponent: float = 2.0
    aspect: float = 1.0
    flutes: int = 0
    depth: float = 0.0
    turn: float = 0.0

    def radius(self, angle: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """Factor of the radius in a direction."""
        a, b = np.sqrt(self.aspect), 1.0 / np.sqrt(self.aspect)
        x, y = np.abs(np.cos(angle - self.turn)) / a, np.abs(np.sin(angle - self.turn)) / b
        power = self.exponent
        # A square of the same mean radius has its sides nearer to the axis.
        size = 2.0 ** (-0.5 * (0.5 - 1.0 / power))
        return (
            size
            * (x**power + y**power) ** (-1.0 / power)
            * (1.0 - self.depth * (0.5 - 0.5 * np.cos(self.flutes * angle)))
        )


ROUND = Section()


def smooth(controls: Sequence[tuple[float, float]], corners: int) -> Profile:
    """A curve through points without overshoot, its corners evenly spread along it."""
    points = np.array(controls, dtype=float)
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    curve = PchipInterpolator(along, points)(np.linspace(0.0, along[-1], 200))
    return evenly(curve, corners)


def evenly(line: Float[np.ndarray, "n dim"], corners: int) -> Float[np.ndarray, "corners dim"]:
    """The same line with its corners evenly spread along it."""
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))])
    spots = np.linspace(0.0, along[-1], corners)
    return np.stack([np.interp(spots, along, column) for column in line.T], axis=1)


def revolved(
    profile: Profile,
    section: Section = ROUND,
    share: Callable[[Float[np.ndarray, "n"]], Float[np.ndarray, "n"]] | None = None,
    sides: int = 48,
) -> trimesh.Trimesh:
    """A closed surface around the z axis.

    Args:
        profile: From the axis to the axis, counter-clockwise with the axis on the left.
        section: Of the surface.
        share: How much of the section is used at a height: 0 is round, 1 is all of it.
        sides: Corners around.
    """
    angle = 2.0 * np.pi * np.arange(sides) / sides
    around = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    rings = profile[1:-1]
    weight = np.ones(len(rings)) if share is None else share(rings[:, 1])
    factor = 1.0 + weight[:, None] * (section.radius(angle) - 1.0)
    flat = (rings[:, 0, None] * factor)[:, :, None] * around
    high = np.broadcast_to(rings[:, 1, None, None], (*flat.shape[:2], 1))
    corners = np.concatenate([flat, high], axis=2).reshape(-1, 3)
    ends = [[0.0, 0.0, profile[0, 1]], [0.0, 0.0, profile[-1, 1]]]
    return _closed_tube(corners, np.array(ends), len(rings), sides)


def _closed_tube(
    corners: Float[np.ndarray, "corners 3"],
    ends: Float[np.ndarray, "2 3"],
    rings: int,
    sides: int,
) -> trimesh.Trimesh:
    """Faces between rings of corners, and fans to a point at both ends; outside is outside."""
    here, after = np.arange(sides), (np.arange(sides) + 1) % sides
    faces = []
    for ring in range(rings - 1):
        low, high = ring * sides, (ring + 1) * sides
        faces.append(np.stack([low + here, low + after, high + after], axis=1))
        faces.append(np.stack([low + here, high + after, high + here], axis=1))
    first, last, top = len(corners), len(corners) + 1, (rings - 1) * sides
    faces.append(np.stack([np.full(sides, first), after, here], axis=1))
    faces.append(np.stack([np.full(sides, last), top + here, top + after], axis=1))
    mesh = trimesh.Trimesh(np.concatenate([corners, ends]), np.concatenate(faces), process=False)
    if mesh.volume < 0:
        mesh.invert()
    return mesh


def vessel_profile(
    outside: Profile, foot: Profile, floor: float, wall: tuple[float, float]
) -> Profile:
    """Foot, outside, rounded rim and inside of an open vessel, from axis to axis.

    Args:
        outside: From the foot to the rim.
        foot: Underside, from the axis to the beginning of `outside`.
        floor: Height of the floor inside, metres.
        wall: Thickness at the foot and at the rim, metres.
    """
    along = np.gradient(outside, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    inward = np.stack([-along[:, 1], along[:, 0]], axis=1)
    thick = np.linspace(wall[0], wall[1], len(outside))[:, None]
    inside = outside + thick * inward
    turn = np.linspace(0.0, np.pi, 6)[1:-1, None]
    middle = (outside[-1] + inside[-1]) / 2
    half = wall[1] / 2
    rim = middle - half * np.cos(turn) * inward[-1] + half * np.sin(turn) * along[-1]
    kept = inside[(inside[:, 1] > floor + 0.001) & (inside[:, 0] > 0.004)][::-1]
    edge = float(kept[-1, 0])
    down = np.array([[0.93 * edge, floor + 0.0003], [0.55 * edge, floor], [0.0, floor]])
    return np.concatenate([foot, outside, rim, kept, down])


def foot_profile(
    rng: np.random.Generator, radius: float, height: float, edge: float
) -> tuple[Profile, float]:
    """The underside up to the wall, and how high the underside rises in the middle, metres.

    Args:
        rng: For the choice: flat, or a ring around a hollow.
        radius: Of the foot.
        height: Of the foot; 0 for none.
        edge: Radius where the wall begins.
    """
    if height <= 0.0:
        hollow = float(rng.choice([0.0, 0.0015]))
        under = [(0.0, hollow), (0.7 * radius, hollow), (0.8 * radius, 0.0), (radius, 0.0)]
        return np.array(under), hollow
    ring = max(0.004, 0.14 * radius)
    hollow = float(rng.choice([0.0, 0.6])) * height
    flare = rng.uniform(-0.08, 0.15) * radius
    under = [
        (0.0, hollow), (radius - ring - 0.001, hollow), (radius - ring, 0.0),
        (radius + flare, 0.0), (min(radius + 0.3 * flare, edge), 0.85 * height),
    ]  # fmt: skip
    return np.array(under), hollow


def handle_mesh(
    path: Float[np.ndarray, "corners 2"],
    thick: Float[np.ndarray, "corners"],
    wide: Float[np.ndarray, "corners"],
    exponent: float,
    sides: int = 14,
) -> trimesh.Trimesh:
    """A closed tube along a path in the plane y = 0.

    Args:
        path: (x, z) of the middle line, metres.
        thick: Half of the thickness in the plane, metres.
        wide: Half of the width across the plane, metres.
        exponent: Of the tube's section; 2 is an ellipse.
        sides: Corners around.
    """
    along = np.gradient(path, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    beside = np.stack([along[:, 1], -along[:, 0]], axis=1)
    angle = 2.0 * np.pi * np.arange(sides) / sides
    bend = 2.0 / exponent
    u = np.sign(np.cos(angle)) * np.abs(np.cos(angle)) ** bend
    v = np.sign(np.sin(angle)) * np.abs(np.sin(angle)) ** bend
    flat = path[:, None] + (thick[:, None] * u)[:, :, None] * beside[:, None]
    y = wide[:, None] * v
    corners = np.stack([flat[..., 0], y, flat[..., 1]], axis=2).reshape(-1, 3)
    ends = np.array([[path[0, 0], 0.0, path[0, 1]], [path[-1, 0], 0.0, path[-1, 1]]])
    return _closed_tube(corners, ends, len(path), sides)
