"""Bottles: body, shoulder, neck and cap, closed and solid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from handful.render import Color, ColoredMesh, revolved_mesh
from handful.sim.objects._draws import spread
from handful.sim.objects._parts import Neck, Thing, frustum_part, prism_parts

AMBER: Color = (0.78, 0.47, 0.13)
CAP_WHITE: Color = (0.92, 0.92, 0.90)


@dataclass(frozen=True)
class BottleShape:
    """A bottle; metres. The bottom is at z = 0 around the origin.

    Attributes:
        body_radius: Of the body.
        body_height: Up to the shoulder.
        shoulder: Height of the shoulder.
        neck_radius: Of the neck.
        neck_height: From the shoulder to the cap.
        cap_radius: How much the cap is wider than the neck.
        cap_height: Of the cap.
        mass: Kilograms.
    """

    body_radius: float = 0.031
    body_height: float = 0.095
    shoulder: float = 0.024
    neck_radius: float = 0.0125
    neck_height: float = 0.016
    cap_radius: float = 0.0025
    cap_height: float = 0.018
    mass: float = 0.16

    @property
    def height(self) -> float:
        """From bottom to top of the cap, metres."""
        return self.body_height + self.shoulder + self.neck_height + self.cap_height

    def thing(self, name: str = "bottle", color: Color = AMBER) -> Thing:
        """The bottle as a body."""
        z1, z2 = self.body_height, self.body_height + self.shoulder
        z3 = z2 + self.neck_height
        cap = self.neck_radius + self.cap_radius
        parts = [
            *prism_parts(self.body_radius, 0.0, z1, 16),
            frustum_part((self.body_radius, z1), (self.neck_radius, z2)),
            *prism_parts(self.neck_radius, z2, z3),
            *prism_parts(cap, z3, self.height),
        ]
        neck = Neck(self.height, cap, min(self.cap_height + self.neck_height - 0.003, 0.026))
        return Thing(name, self._meshes(color), tuple(parts), self.mass, neck=neck)

    def _meshes(self, color: Color) -> tuple[ColoredMesh, ColoredMesh]:
        share = np.linspace(0.0, 1.0, 9)
        turn = 0.5 - 0.5 * np.cos(np.pi * share)
        shoulder = np.stack(
            [
                self.body_radius + (self.neck_radius - self.body_radius) * turn,
                self.body_height + self.shoulder * share,
            ],
            axis=1,
        )
        z3 = self.height - self.cap_height
        glass = np.concatenate(
            [
                [[0.0, 0.0], [self.body_radius, 0.0]],
                shoulder,
                [[self.neck_radius, z3], [0.0, z3]],
            ]
        )
        cap = self.neck_radius + self.cap_radius
        lid = np.array([[0.0, z3], [cap, z3], [cap, self.height], [0.0, self.height]])
        return revolved_mesh(glass, color, 40), revolved_mesh(lid, CAP_WHITE, 32)


_RANGES = {
    "body_radius": (0.024, 0.040),
    "body_height": (0.060, 0.125),
    "shoulder": (0.012, 0.036),
    "neck_radius": (0.009, 0.016),
    "neck_height": (0.010, 0.024),
    "cap_radius": (0.0, 0.005),
    "cap_height": (0.014, 0.024),
    "mass": (0.09, 0.24),
}

DEFAULT_BOTTLES = tuple(BottleShape(**numbers) for numbers in spread(_RANGES, 5, key=3))
"""The bottles of demonstrations: five, because bottles differ so much (the paper's appendix H)."""

UNSEEN_BOTTLES = tuple(BottleShape(**numbers) for numbers in spread(_RANGES, 10, key=4))
