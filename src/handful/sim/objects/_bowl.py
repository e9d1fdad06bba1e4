"""Bowls: rings of staves on a foot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.render import Color, ColoredMesh, revolved_mesh
from handful.sim.objects._draws import spread
from handful.sim.objects._parts import Part, Rim, Thing, placed, wall_parts

WHITE_BLUE: Color = (0.35, 0.55, 0.80)
STAVES = 18
RINGS = 5
CLAY = 1500.0
"""Density, kg / m^3."""


@dataclass(frozen=True)
class BowlShape:
    """A bowl; metres. The foot is at z = 0 around the origin.

    Attributes:
        radius: Outer, at the rim.
        height: From the table to the rim.
        wall: Thickness.
        foot_radius: Of the foot.
        foot_height: Of the foot.
        profile: 1 is a cone; smaller is rounder, with a steeper wall at the rim.
    """

    radius: float = 0.075
    height: float = 0.062
    wall: float = 0.0042
    foot_radius: float = 0.034
    foot_height: float = 0.007
    profile: float = 0.52

    def outer(self, z: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """Radius of the outer wall at height z above the foot, metres."""
        share = np.clip((z - self.foot_height) / (self.height - self.foot_height), 0.0, 1.0)
        return self.foot_radius + (self.radius - self.foot_radius) * share**self.profile

    def _heights(self, count: int) -> Float[np.ndarray, "count"]:
        """Close together where the wall is flat."""
        share = np.linspace(0.0, 1.0, count) ** (1.0 / max(self.profile, 0.3))
        return self.foot_height + (self.height - self.foot_height) * share

    def thing(self, name: str = "bowl", color: Color = WHITE_BLUE) -> Thing:
        """The bowl as a body."""
        z = self._heights(RINGS + 1)
        profile = np.stack([self.outer(z) - self.wall / 2, z], axis=1)
        floor = self.foot_height + self.wall
        foot = Part("cylinder", (self.foot_radius, floor / 2), placed((0, 0, floor / 2)))
        parts = [*wall_parts(profile, self.wall, STAVES, np.pi / STAVES), foot]
        mass = CLAY * sum(part.volume for part in parts)
        return Thing(name, (self._mesh(color),), tuple(parts), mass, self._rim())

    def _mesh(self, color: Color) -> ColoredMesh:
        z = self._heights(15)
        outside = np.stack([self.outer(z), z], axis=1)
        floor = self.foot_height + self.wall
        inside = np.stack([self.outer(z) - self.wall, np.maximum(z, floor)], axis=1)[::-1]
        foot = [[0.0, 0.0], [self.foot_radius, 0.0]]
        profile = np.concatenate([foot, outside, inside, [[0.0, floor]]])
        return revolved_mesh(profile, color, 56)

    def _rim(self) -> Rim:
        angle = np.linspace(-np.pi, np.pi, 72, endpoint=False)
        top, below = self.outer(np.array([self.height, self.height - 0.018]))
        lean = np.arctan2(top - below, 0.018)
        out = np.stack([np.cos(angle), np.sin(angle), np.zeros(72)], axis=1)
        up = np.array([0.0, 0.0, 1.0])
        points = (top - self.wall / 2) * out + self.height * up
        down = -np.sin(lean) * out - np.cos(lean) * up
        return Rim(points, down, np.cos(lean) * out - np.sin(lean) * up, depth=0.018)


DEFAULT_BOWL = BowlShape()

UNSEEN_BOWLS = tuple(
    BowlShape(**numbers)
    for numbers in spread(
        {
            "radius": (0.060, 0.086),
            "height": (0.048, 0.082),
            "wall": (0.0034, 0.0056),
            "foot_radius": (0.024, 0.042),
            "foot_height": (0.004, 0.012),
            "profile": (0.38, 0.72),
        },
        10,
        key=2,
    )
)
