"""A mug, a hanger and a table from a few numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Float

from handful.errors import DemoError
from handful.render import ColoredMesh, box_mesh, joined, revolved_mesh, tube_mesh

MUG_RED = (0.80, 0.17, 0.15)
HANGER_GREEN = (0.16, 0.66, 0.22)
TABLE_GREY = (0.42, 0.42, 0.44)
TABLE_SIDE = 0.6
"""Metres."""

_SIDES = 64


@dataclass(frozen=True)
class MugShape:
    """A mug; metres. In its frame the bottom is at z = 0 around the origin, the handle at +x.

    The middle line of the handle is half an ellipse in the plane y = 0.

    Attributes:
        radius: Of the outer wall.
        height: From the bottom to the rim.
        wall: Thickness of the wall and of the bottom.
        handle_reach: How far the handle's middle line goes beyond the wall's middle.
        handle_height: Height of that line, from end to end.
        handle_radius: Of the tube that follows it.
    """

    radius: float = 0.045
    height: float = 0.095
    wall: float = 0.004
    handle_reach: float = 0.036
    handle_height: float = 0.062
    handle_radius: float = 0.0055

    def __post_init__(self) -> None:
        _check_positive(self)
        if self.wall > self.radius / 2 or self.handle_height + self.wall > self.height:
            raise DemoError(f"{self}: the wall or the handle is too large for the mug.")

    @property
    def wall_radius(self) -> float:
        """From the axis to the middle of the wall, metres."""
        return self.radius - self.wall / 2

    def mesh(self) -> ColoredMesh:
        """The mug in its own frame."""
        inner = self.radius - self.wall
        profile = np.array(
            [
                [0.0, 0.0],
                [self.radius, 0.0],
                [self.radius, self.height],
                [inner, self.height],
                [inner, self.wall],
                [0.0, self.wall],
            ]
        )
        handle = tube_mesh(self.handle_line(), self.handle_radius, MUG_RED, sides=16)
        return joined([revolved_mesh(profile, MUG_RED, _SIDES), handle])

    def handle_line(self, corners: int = 33) -> Float[np.ndarray, "corners 3"]:
        """The middle line of the handle from its lower to its upper end, metres."""
        angle = np.linspace(-np.pi / 2, np.pi / 2, corners)
        x = self.wall_radius + self.handle_reach * np.cos(angle)
        z = self.height / 2 + self.handle_height / 2 * np.sin(angle)
        return np.stack([x, np.zeros(corners), z], axis=1)

    def handle_rest(self, tilt: float, distance: float) -> Float[np.ndarray, "3"]:
        """Where the axis of an arm runs that the handle rests on; the arm is parallel to y.

        The handle's middle line bears on the arm where it goes farthest up, and there the arm's
        axis is `distance` below it.

        Args:
            tilt: Radians from the mug's axis to upwards, towards the handle; 0 is an upright mug.
            distance: From the handle's middle line to the arm's axis, metres.
        """
        up = np.array([np.sin(tilt), np.cos(tilt)])
        half = np.array([self.handle_reach, self.handle_height / 2])
        x, z = half**2 * up / np.linalg.norm(half * up) - distance * up
        return np.array([self.wall_radius + x, 0.0, self.height / 2 + z])


@dataclass(frozen=True)
class HangerShape:
    """A post with an arm that rises into free air; metres.

    In its frame the foot is at z = 0 around the origin and the arm goes towards +x.

    Attributes:
        foot_radius: Of the round foot.
        foot_height: Of the foot.
        post_radius: Of the post.
        post_height: From the table to the post's top.
        arm_height: From the table to where the arm's axis leaves the post's.
        arm_length: From there to the arm's end.
        arm_radius: Of the arm.
        arm_rise: Angle between the arm and the table, radians.
    """

    foot_radius: float = 0.05
    foot_height: float = 0.012
    post_radius: float = 0.009
    post_height: float = 0.225
    arm_height: float = 0.205
    arm_length: float = 0.115
    arm_radius: float = 0.006
    arm_rise: float = 0.45

    def __post_init__(self) -> None:
        _check_positive(self)
        if self.arm_height > self.post_height or self.arm_rise > 1.4:
            raise DemoError(
                f"{self}: the arm must leave the post below its top and not be upright."
            )

    @property
    def arm_direction(self) -> Float[np.ndarray, "3"]:
        """From the post outwards; a unit vector."""
        return np.array([np.cos(self.arm_rise), 0.0, np.sin(self.arm_rise)])

    def arm_point(self, along: float) -> Float[np.ndarray, "3"]:
        """The point of the arm's axis `along` metres from the post's axis."""
        return np.array([0.0, 0.0, self.arm_height]) + along * self.arm_direction

    def mesh(self) -> ColoredMesh:
        """The hanger in its own frame."""
        radius, top = self.foot_radius, self.foot_height
        profile = np.array(
            [
                [0.0, 0.0],
                [radius, 0.0],
                [radius, top],
                [self.post_radius, top],
                [self.post_radius, self.post_height],
                [0.0, self.post_height],
            ]
        )
        path = np.stack([self.arm_point(0.0), self.arm_point(self.arm_length)])
        arm = tube_mesh(path, self.arm_radius, HANGER_GREEN, sides=24)
        return joined([revolved_mesh(profile, HANGER_GREEN, 32), arm])


def table_mesh() -> ColoredMesh:
    """A square table top; its surface is z = 0, its middle the origin."""
    half = TABLE_SIDE / 2
    return box_mesh((-half, -half, -0.02), (half, half, 0.0), TABLE_GREY)


def _check_positive(shape: Any) -> None:
    for part in fields(shape):
        value = getattr(shape, part.name)
        if not (np.isfinite(value) and value > 0.0):
            raise DemoError(f"{type(shape).__name__}.{part.name} is {value}: need more than 0.")
