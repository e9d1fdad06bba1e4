"""Mugs: a wall of staves, a bottom, and a handle of capsules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.render import Color, ColoredMesh, joined, revolved_mesh, tube_mesh
from handful.sim.objects._draws import spread
from handful.sim.objects._parts import (
    Handle,
    Part,
    Rim,
    Thing,
    capsule_parts,
    placed,
    wall_parts,
)

RED: Color = (0.80, 0.17, 0.15)
STAVES = 20
HANDLE_PIECES = 14
CLAY = 1900.0
"""Density, kg / m^3."""


@dataclass(frozen=True)
class MugShape:
    """A mug; metres. The bottom is at z = 0 around the origin, the handle at +x.

    Attributes:
        radius: Of the outer wall at the rim.
        height: From bottom to rim.
        wall: Thickness of wall and bottom.
        taper: Radius at the bottom as a share of the radius at the rim.
        belly: How much wider the middle is, as a share of the radius.
        handle_reach: How far the handle's middle line goes beyond the wall.
        handle_height: Height of that line, as a share of the mug's height.
        handle_center: Height of its middle, as a share of the mug's height.
        handle_radius: Of the handle's bar.
        handle_square: 2 is an ellipse, larger is more of a rectangle.
    """

    radius: float = 0.043
    height: float = 0.098
    wall: float = 0.0042
    taper: float = 1.0
    belly: float = 0.0
    handle_reach: float = 0.037
    handle_height: float = 0.66
    handle_center: float = 0.5
    handle_radius: float = 0.0055
    handle_square: float = 2.6

    def outer(self, z: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """Radius of the outer wall at height z, metres."""
        share = z / self.height
        line = self.taper + (1.0 - self.taper) * share
        return self.radius * (line + 4.0 * self.belly * share * (1.0 - share))

    def handle_line(self, corners: int) -> Float[np.ndarray, "corners 3"]:
        """The middle line of the handle from its lower to its upper end, metres."""
        angle = np.linspace(-np.pi / 2, np.pi / 2, corners)
        power = 2.0 / self.handle_square
        bulge = self.handle_reach * np.abs(np.cos(angle)) ** power
        rise = np.sign(np.sin(angle)) * np.abs(np.sin(angle)) ** power
        z = self.height * (self.handle_center + self.handle_height / 2 * rise)
        x = self.outer(z) - self.wall / 2 + bulge
        return np.stack([x, np.zeros(corners), z], axis=1)

    def thing(self, name: str = "mug", color: Color = RED) -> Thing:
        """The mug as a body."""
        rings = 1 if abs(self.belly) < 1e-3 else 4
        # The wall begins above the bottom: the mug stands on one disc, not on twenty edges.
        z = np.linspace(self.wall / 3, self.height, rings + 1)
        profile = np.stack([self.outer(z) - self.wall / 2, z], axis=1)
        bottom = Part(
            "cylinder",
            (float(self.outer(np.zeros(1))[0]), self.wall / 2),
            placed((0, 0, self.wall / 2)),
        )
        parts = [
            *wall_parts(profile, self.wall, STAVES, np.pi / STAVES),
            bottom,
            *capsule_parts(self.handle_line(HANDLE_PIECES + 1), self.handle_radius),
        ]
        mass = CLAY * sum(part.volume for part in parts)
        return Thing(name, (self._mesh(color),), tuple(parts), mass, self._rim(), self._handle())

    def _mesh(self, color: Color) -> ColoredMesh:
        z = np.linspace(0.0, self.height, 13)
        outside = np.stack([self.outer(z), z], axis=1)
        inside = np.stack([self.outer(z) - self.wall, np.maximum(z, self.wall)], axis=1)[::-1]
        profile = np.concatenate([[[0.0, 0.0]], outside, inside, [[0.0, self.wall]]])
        handle = tube_mesh(self.handle_line(33), self.handle_radius, color, sides=14)
        return joined([revolved_mesh(profile, color, 48), handle])

    def _rim(self) -> Rim:
        """All around but where the handle is in the way of the outer finger."""
        blocked = np.deg2rad(38.0)
        angle = np.linspace(blocked, 2.0 * np.pi - blocked, 61)
        top, below = self.outer(np.array([self.height, self.height - 0.02]))
        lean = np.arctan2(top - below, 0.02)
        out = np.stack([np.cos(angle), np.sin(angle), np.zeros(61)], axis=1)
        up = np.array([0.0, 0.0, 1.0])
        points = (top - self.wall / 2) * out + self.height * up
        down = -np.sin(lean) * out - np.cos(lean) * up
        return Rim(points, down, np.cos(lean) * out - np.sin(lean) * up)

    def _handle(self) -> Handle:
        """The largest ball between bar and wall, in the plane y = 0."""
        line = self.handle_line(65)
        low, high = line[0, 2], line[-1, 2]
        x, z = np.meshgrid(
            np.linspace(0.0, line[:, 0].max(), 120), np.linspace(low, high, 80), indexing="ij"
        )
        spots = np.stack([x, np.zeros_like(x), z], axis=-1).reshape(-1, 3)
        to_bar = np.linalg.norm(spots[:, None] - line[None], axis=2).min(axis=1)
        to_wall = spots[:, 0] - self.outer(spots[:, 2])
        room = np.minimum(to_bar - self.handle_radius, to_wall)
        room[spots[:, 0] >= line[:, 0].max() - self.handle_radius] = -1.0
        best = int(room.argmax())
        outward = np.array([1.0, 0.0, 0.0])
        grip = line[int(np.abs(line[:, 2] - spots[best, 2]).argmin())]
        return Handle(spots[best], np.array([0.0, 1.0, 0.0]), float(room[best]), grip, outward)


DEFAULT_MUG = MugShape()

UNSEEN_MUGS = tuple(
    MugShape(**numbers)
    for numbers in spread(
        {
            "radius": (0.036, 0.050),
            "height": (0.075, 0.120),
            "wall": (0.0034, 0.0058),
            "taper": (0.72, 1.06),
            "belly": (-0.04, 0.14),
            "handle_reach": (0.033, 0.044),
            "handle_height": (0.58, 0.72),
            "handle_center": (0.46, 0.56),
            "handle_radius": (0.0040, 0.0065),
            "handle_square": (2.0, 4.5),
        },
        10,
        key=1,
    )
)
