"""Mugs, bowls and bottles of any proportions whose inside is known exactly.

A shape is a profile that is turned about the z axis, with or without a handle: a tube along a line.
These are the categories that the network is pre-trained on; no shape of the simulated world and
nothing demonstrated is among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from handful.render import Color, ColoredMesh, revolved_mesh, tube_mesh

GREY: Color = (0.5, 0.5, 0.5)


@dataclass(frozen=True, eq=False)
class Shape:
    """A solid; metres, z up, the bottom at z = 0.

    Attributes:
        profile: (radius, height) of the corners of the outline, a closed line from axis to axis.
        handle: Middle line of the handle; without corners if there is none.
        handle_radius: Of its bar.
    """

    profile: Float[np.ndarray, "corners 2"]
    handle: Float[np.ndarray, "joints 3"]
    handle_radius: float = 0.0

    def inside(self, positions: Float[np.ndarray, "positions 3"]) -> Bool[np.ndarray, "positions"]:
        """Which positions lie in the solid."""
        radius = np.linalg.norm(positions[:, :2], axis=1)
        solid = in_polygon(np.stack([radius, positions[:, 2]], axis=1), self.profile)
        if len(self.handle):
            solid |= to_line(positions, self.handle) < self.handle_radius
        return solid

    @property
    def meshes(self) -> list[ColoredMesh]:
        """How it looks."""
        body = revolved_mesh(self.profile, GREY, 32)
        if not len(self.handle):
            return [body]
        return [body, tube_mesh(self.handle, self.handle_radius, GREY, 10)]


def in_polygon(
    points: Float[np.ndarray, "points 2"], corners: Float[np.ndarray, "corners 2"]
) -> Bool[np.ndarray, "points"]:
    """Which points lie in a polygon: a ray from one of them crosses an odd number of sides."""
    x, y = points[:, :1], points[:, 1:]
    (x0, y0), (x1, y1) = corners.T, np.roll(corners, -1, axis=0).T
    rise = np.where(y1 == y0, 1.0, y1 - y0)  # level sides are never crossed
    crossed = (y0 > y) != (y1 > y)
    return (crossed & (x < x0 + (y - y0) / rise * (x1 - x0))).sum(axis=1) % 2 == 1


def to_line(
    points: Float[np.ndarray, "points 3"], joints: Float[np.ndarray, "joints 3"]
) -> Float[np.ndarray, "points"]:
    """Distance of points from a line of straight pieces."""
    start, along = joints[:-1], np.diff(joints, axis=0)
    away = points[:, None] - start
    share = (away * along).sum(-1) / (along**2).sum(-1)
    gap = away - np.clip(share, 0.0, 1.0)[..., None] * along
    return np.linalg.norm(gap, axis=-1).min(axis=1)


def random_mug(rng: np.random.Generator) -> Shape:
    """A mug; its handle is at +x."""
    radius, height = rng.uniform(0.034, 0.052), rng.uniform(0.07, 0.125)
    wall, taper = rng.uniform(0.0034, 0.006), rng.uniform(0.7, 1.08)
    belly = rng.uniform(-0.05, 0.15)

    def outer(z: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        share = z / height
        line = taper + (1.0 - taper) * share
        return radius * (line + 4.0 * belly * share * (1.0 - share))

    angle, power = np.linspace(-np.pi / 2, np.pi / 2, 17), 2.0 / rng.uniform(2.0, 4.5)
    bulge = rng.uniform(0.03, 0.046) * np.abs(np.cos(angle)) ** power
    rise = np.sign(np.sin(angle)) * np.abs(np.sin(angle)) ** power
    z = height * (rng.uniform(0.45, 0.57) + rng.uniform(0.28, 0.37) * rise)
    handle = np.stack([outer(z) - wall / 2 + bulge, np.zeros(17), z], axis=1)
    return Shape(vessel(outer, height, wall), handle, rng.uniform(0.004, 0.0068))


def random_bowl(rng: np.random.Generator) -> Shape:
    """A bowl on a foot."""
    radius, height = rng.uniform(0.055, 0.09), rng.uniform(0.045, 0.085)
    foot, profile = rng.uniform(0.022, 0.044), rng.uniform(0.35, 0.75)

    def outer(z: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return foot + (radius - foot) * (z / height) ** profile

    return Shape(vessel(outer, height, rng.uniform(0.0034, 0.006)), np.zeros((0, 3)))


def random_bottle(rng: np.random.Generator) -> Shape:
    """A closed bottle with a cap."""
    body, neck = rng.uniform(0.022, 0.042), rng.uniform(0.008, 0.017)
    z = np.cumsum([rng.uniform(0.055, 0.13), rng.uniform(0.01, 0.038), rng.uniform(0.008, 0.026),
                   rng.uniform(0.012, 0.026)])  # fmt: skip
    turn = 0.5 - 0.5 * np.cos(np.pi * np.linspace(0.0, 1.0, 9))
    shoulder = np.stack([body + (neck - body) * turn, np.linspace(z[0], z[1], 9)], axis=1)
    cap = neck + rng.uniform(0.0005, 0.0055)
    top = [[neck, z[2]], [cap, z[2]], [cap, z[3]], [0.0, z[3]]]
    return Shape(np.concatenate([[[0.0, 0.0], [body, 0.0]], shoulder, top]), np.zeros((0, 3)))


FAMILIES: tuple[Callable[[np.random.Generator], Shape], ...] = (
    random_mug, random_bowl, random_bottle,
)  # fmt: skip


def vessel(
    outer: Callable[[np.ndarray], np.ndarray], height: float, wall: float
) -> Float[np.ndarray, "corners 2"]:
    """The profile of something with a wall, a bottom as thick, and an opening.

    Args:
        outer: Radius of the outer wall at heights.
        height: Of the rim.
        wall: Thickness.
    """
    z = height * np.linspace(0.0, 1.0, 13) ** 1.5  # closer where bowls are flat
    outside = np.stack([outer(z), z], axis=1)
    above = z[z > wall]
    inside = np.stack([outer(above) - wall, above], axis=1)[::-1]
    edge = [[float(outer(np.array([wall]))[0]) - wall, wall], [0.0, wall]]
    return np.concatenate([[[0.0, 0.0]], outside, inside, edge])
