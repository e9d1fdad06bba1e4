"""Clutter: random shapes in training scenes, so that a model learns what the target is not.

A demonstrated scene holds little besides its target, and whatever tells the two apart will do: the
end of a hammer's handle sticks out like the neck of a bottle. Boxes, ellipsoids, cylinders, cones
and rings of any size and colour, alone or grown together, leave less to chance. And where a bottle
stood in the demonstrations, its neck was far from the table and cameras saw all sides of it. A
floor at any angle near the target, with cameras above it only, shows the bottle as if it lay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial.transform import Rotation

from handful.clouds import PointCloud
from handful.errors import OptionError
from handful.learning.variation._visibility import visible_from

_SPACING = 0.006
"""Distance of neighbouring points, metres: about that of prepared scenes."""
_MOST_POINTS = 800
_STOCKY = 0.5
"""Share of the things that are about as long as wide and high; others are plates and rods, too."""
_MOST_PARTS = 4
"""A thing of several shapes has up to this many."""
_CAMERAS, _CAMERA_DISTANCE, _LEVEL = 3, 0.7, 0.8
"""Cameras above a floor, their distance from the target in metres, and how level they may look."""
_FEWEST = 20
"""Fewer local points than this are left as they are."""
_LOCAL, _MOST_HIDDEN, _TRIES = 0.12, 0.1, 20
"""Metres around the target, the share of the points there that a floor may hide, and how many
floors are tried."""


@dataclass(frozen=True)
class Clutter:
    """How many shapes, how large and where; lengths in metres.

    Attributes:
        most: The largest number of shapes in a scene; the number is drawn from 0 to it. 0 for none.
        smallest: Smallest half length, width or height of a shape; each is drawn by itself.
        largest: The largest one.
        gap: Least free distance between a shape and the target.
        two_colors: Probability that a shape has two colours.
        compound: Probability that a thing consists of several shapes.
        floor: Probability of a floor.
        floor_gaps: Smallest and largest distance between floor and target.
    """

    most: int = 0
    smallest: float = 0.006
    largest: float = 0.05
    gap: float = 0.03
    two_colors: float = 0.3
    compound: float = 0.5
    floor: float = 0.0
    floor_gaps: tuple[float, float] = (0.02, 0.08)

    def __post_init__(self) -> None:
        if not (
            0 <= self.most <= 100
            and 0 <= self.two_colors <= 1
            and 0 <= self.floor <= 1
            and 0 <= self.compound <= 1
        ):
            raise OptionError(f"{self} needs 0 to 100 shapes and probabilities.")
        lengths = (
            (0.0, self.smallest, self.largest, np.inf),
            (0.0, self.gap, np.inf),
            (0.0, *self.floor_gaps, np.inf),
        )
        if not all(a < b or a == b > 0 for row in lengths for a, b in pairwise(row)):
            raise OptionError(f"{self} needs positive lengths in order.")

    def apply(
        self,
        scene: PointCloud,
        target: Float[np.ndarray, "3"],
        rng: np.random.Generator,
        floor: bool = True,
    ) -> PointCloud:
        """The scene with shapes around `target`, and a floor where one is allowed."""
        if floor and self.floor > 0 and rng.uniform() < self.floor:
            scene = self._with_floor(scene, target, rng)
        count = int(rng.integers(self.most + 1))
        return _joined(scene, [self._shape(scene, target, rng) for _ in range(count)])

    def _with_floor(
        self, scene: PointCloud, target: Float[np.ndarray, "3"], rng: np.random.Generator
    ) -> PointCloud:
        """The scene on a round floor; what is near the target is seen only from above that.

        A floor that cuts much of the target off would show a small block on a table, and teach the
        model to take one for it.
        """
        around = scene.points - target
        local = np.linalg.norm(around, axis=1) < _LOCAL
        for _ in range(_TRIES):
            axes, gap = Rotation.random(rng=rng).as_matrix(), rng.uniform(*self.floor_gaps)
            behind = around @ axes[2] > gap
            if behind[local].sum() <= _MOST_HIDDEN * local.sum():
                break
        else:
            return scene
        radius = rng.uniform(0.1, 0.2)
        number = int(math.pi * radius**2 / _SPACING**2)
        angle, distance = rng.uniform(0.0, 2.0 * math.pi, number), np.sqrt(rng.uniform(size=number))
        flat = radius * distance * np.stack([np.cos(angle), np.sin(angle)])
        points = target + gap * axes[2] + flat.T @ axes[:2]
        colors = np.repeat(rng.uniform(size=(1, 3)), number, axis=0)
        kept = ~behind & (~local | _seen_from_above(scene, local, target, axes[2], rng))
        return _joined(scene.selected(kept), [(points, colors)])

    def _shape(
        self, scene: PointCloud, target: Float[np.ndarray, "3"], rng: np.random.Generator
    ) -> tuple[Float[np.ndarray, "points 3"], Float[np.ndarray, "points 3"]]:
        """Points and colours of one thing: a shape, or several that grow out of each other."""
        lengths = (math.log(self.smallest), math.log(self.largest))
        half = np.exp(rng.uniform(*lengths, 3))
        if rng.uniform() < _STOCKY:
            half = np.exp(rng.uniform(sum(lengths) / 2.0, lengths[1]) + rng.uniform(-0.4, 0.4, 3))
            half = np.clip(half, self.smallest, self.largest)
        points, colors = self._part(half, rng)
        if rng.uniform() < self.compound:
            for _ in range(int(rng.integers(1, _MOST_PARTS))):
                smaller = half * rng.uniform(0.4, 1.1, 3)
                part, tint = self._part(np.clip(smaller, self.smallest, self.largest), rng)
                at = points[rng.integers(len(points))]
                points, colors = np.concatenate([points, part + at]), np.concatenate([colors, tint])
        points = points - points.mean(axis=0)
        radius = float(np.linalg.norm(points, axis=1).max())
        return points + self._middle(scene, target, radius, rng), colors

    def _part(
        self, half: Float[np.ndarray, "3"], rng: np.random.Generator
    ) -> tuple[Float[np.ndarray, "points 3"], Float[np.ndarray, "points 3"]]:
        """A turned shape about the origin, of one colour or two."""
        a, b, c = half
        area = 8.0 * (a * b + b * c + c * a)
        number = int(np.clip(area / _SPACING**2, 30, _MOST_POINTS))
        surface = _SURFACES[rng.integers(len(_SURFACES))](number, rng) * half
        colors = np.repeat(rng.uniform(size=(1, 3)), number, axis=0)
        if rng.uniform() < self.two_colors:
            cut = rng.normal(size=3)
            colors[surface @ cut > 0] = rng.uniform(size=3)
        return surface @ Rotation.random(rng=rng).as_matrix().T, colors

    def _middle(
        self,
        scene: PointCloud,
        target: Float[np.ndarray, "3"],
        radius: float,
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "3"]:
        """At a surface of the scene, and away from the target."""
        at = scene.points[rng.integers(len(scene))] + rng.normal(0.0, 0.01, 3)
        away = at - target
        distance = max(float(np.linalg.norm(away)), 1e-9)
        return target + away * (max(distance, radius + self.gap) / distance)


def _seen_from_above(
    scene: PointCloud,
    local: Bool[np.ndarray, "points"],
    target: Float[np.ndarray, "3"],
    down: Float[np.ndarray, "3"],
    rng: np.random.Generator,
) -> Bool[np.ndarray, "points"]:
    """Which of the local points one of some cameras sees; none of them looks up."""
    if local.sum() < _FEWEST:
        return local
    cloud = scene.selected(local)
    found = np.zeros(len(cloud), dtype=bool)
    for _ in range(_CAMERAS):
        direction = rng.normal(size=3)
        height = direction @ down
        direction -= (height + max(abs(height), _LEVEL)) * down
        direction /= np.linalg.norm(direction)
        found |= visible_from(cloud, target + _CAMERA_DISTANCE * direction)
    seen = local.copy()
    seen[local] = found
    return seen


def _joined(scene: PointCloud, things: Sequence[tuple[np.ndarray, np.ndarray]]) -> PointCloud:
    """A scene with the points and colours of other things."""
    if not things:
        return scene
    points = np.concatenate([scene.points, *(points for points, _ in things)])
    colors = None
    if scene.has_colors:
        colors = np.concatenate([scene.require_colors(), *(colors for _, colors in things)])
        colors = colors.astype(np.float32)
    return PointCloud._trusted(points.astype(scene.points.dtype), colors, scene.dropped)


def _box(number: int, rng: np.random.Generator) -> Float[np.ndarray, "points 3"]:
    points = rng.uniform(-1.0, 1.0, (number, 3))
    points[np.arange(number), rng.integers(3, size=number)] = rng.choice([-1.0, 1.0], number)
    return points


def _ball(number: int, rng: np.random.Generator) -> Float[np.ndarray, "points 3"]:
    points = rng.normal(size=(number, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def _cylinder(number: int, rng: np.random.Generator) -> Float[np.ndarray, "points 3"]:
    return _revolved(rng.uniform(0.0, 4.0, number), lambda height: np.ones_like(height), rng)


def _cone(number: int, rng: np.random.Generator) -> Float[np.ndarray, "points 3"]:
    return _revolved(rng.uniform(0.0, 3.0, number), lambda height: (1.0 - height) / 2.0, rng)


def _revolved(
    along: Float[np.ndarray, "points"],
    radius: Callable[[Float[np.ndarray, "points"]], Float[np.ndarray, "points"]],
    rng: np.random.Generator,
) -> Float[np.ndarray, "points 3"]:
    """On the wall where `along` is below 2, on the bottom below 3, on the top beyond."""
    angle = rng.uniform(0.0, 2.0 * math.pi, len(along))
    wall = along < 2.0
    height = np.where(wall, along - 1.0, np.where(along < 3.0, -1.0, 1.0))
    disc = np.sqrt(along % 1.0)
    ring = np.where(wall, radius(height), disc)
    return np.stack([ring * np.cos(angle), ring * np.sin(angle), height], axis=1)


def _ring(number: int, rng: np.random.Generator) -> Float[np.ndarray, "points 3"]:
    """A torus whose tube is a fifth to a half as thick as the hole is wide."""
    thick = rng.uniform(0.15, 0.33)
    around, along = rng.uniform(0.0, 2.0 * math.pi, (2, number))
    reach = 1.0 - thick + thick * np.cos(around)
    return np.stack([reach * np.cos(along), reach * np.sin(along), thick * np.sin(around)], axis=1)


_SURFACES = (_box, _ball, _cylinder, _cone, _ring)
