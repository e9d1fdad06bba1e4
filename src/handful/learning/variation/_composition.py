"""Composed scenes: the object of a demonstration, put somewhere else in another way.

A demonstration tells which points are the object (`Example`). The object can then be taken with
its grasp and put anywhere: lying, on a block, in the place of something else. The pose goes along,
and is exact. Nothing here knows what the object is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from handful.clouds import PointCloud, concatenate
from handful.errors import OptionError
from handful.learning.variation._augmentation import turn_colors
from handful.learning.variation._example import Example

_SPACING = 0.006
"""Distance of neighbouring points of a block, metres: about that of prepared scenes."""
_TABLE = 0.008
"""Points at most this far above the support of the object are its support's, metres."""
_SPOTS = 8
"""Other places that are tried for an object."""
_MARGIN = 0.02
"""Least free distance between an object in another place and what stands there, metres."""


@dataclass(frozen=True)
class Composition:
    """How often and how scenes are composed; lengths in metres.

    Attributes:
        probability: Share of the scenes that are composed, where object and rest are known.
        upright: Of these, the share in which the object stands as it did.
        raised: Share in which it is on a block.
        heights: Smallest and largest height of a block.
        floating: Share without a support: the table was cut away.
        elsewhere: Share in which it is in another place of the scene.
        recolored: Share in which the object gets colours of its own.
    """

    probability: float = 0.0
    upright: float = 0.35
    raised: float = 0.35
    heights: tuple[float, float] = (0.02, 0.15)
    floating: float = 0.15
    elsewhere: float = 0.5
    recolored: float = 0.5

    def __post_init__(self) -> None:
        for name in ("probability", "upright", "raised", "floating", "elsewhere", "recolored"):
            if not 0 <= getattr(self, name) <= 1:
                raise OptionError(f"composition {name} is {getattr(self, name)}: need 0 to 1.")
        if not 0 < self.heights[0] <= self.heights[1] < 1:
            raise OptionError(f"composition heights are {self.heights}: need metres in order.")

    def wanted(self, example: Example, rng: np.random.Generator) -> bool:
        """Whether a scene is to be composed this time."""
        return example.separated and rng.uniform() < self.probability

    def apply(
        self, example: Example, rng: np.random.Generator, level: float | None = None
    ) -> Example:
        """The example with its object somewhere else; its parts must be known.

        Args:
            example: Object, rest and targets.
            rng: Where the randomness comes from.
            level: Height of the support along upwards, metres; None for the object's lowest point.
        """
        thing, rest, up = example.thing, example.rest, example.up
        assert thing is not None
        assert rest is not None
        points = thing.points.astype(np.float64)
        level = float((points @ up).min()) if level is None else level
        turn = np.eye(3) if rng.uniform() < self.upright else Rotation.random(rng=rng).as_matrix()
        middle = points.mean(axis=0)
        turned = (points - middle) @ turn.T
        height = rng.uniform(*self.heights) if rng.uniform() < self.raised else 0.0
        radius = float(np.linalg.norm(turned - (turned @ up)[:, None] * up, axis=1).max())
        spot = middle
        if rng.uniform() < self.elsewhere:
            spot = self._spot(rest, up, level, radius, middle, rng)
        to = spot + (level + height - float((turned @ up).min()) - spot @ up) * up
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = turn, to - turn @ middle
        moved = thing.transformed(T)
        if thing.has_colors and rng.uniform() < self.recolored:
            moved = turn_colors(moved, rng)
        parts = [self._around(rest, up, level, rng), moved]
        if height > 0:
            parts.append(_block(to, up, level, height, radius, rest.has_colors, rng))
        scene = concatenate([part for part in parts if part is not None])
        step = example.step.changed(scene, T @ example.step.targets)
        return replace(example, step=step, thing=moved, rest=None)

    def _around(
        self, rest: PointCloud, up: Float[np.ndarray, "3"], level: float, rng: np.random.Generator
    ) -> PointCloud | None:
        """The rest of the scene, or of it what stands on the table if that was cut away."""
        if rng.uniform() >= self.floating:
            return rest
        standing = rest.points @ up > level + _TABLE
        return rest.selected(standing) if standing.sum() >= 2 else None

    def _spot(
        self,
        rest: PointCloud,
        up: Float[np.ndarray, "3"],
        level: float,
        radius: float,
        otherwise: Float[np.ndarray, "3"],
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "3"]:
        """A place on the support with nothing else near it."""
        height = rest.points @ up - level
        standing = rest.points[height > _TABLE].astype(np.float64)
        flat = standing - (standing @ up)[:, None] * up
        (support,) = np.nonzero(np.abs(height) < _TABLE)
        for index in support[rng.integers(len(support), size=_SPOTS)] if len(support) else ():
            spot = rest.points[index].astype(np.float64)
            away = np.linalg.norm(flat - (spot - (spot @ up) * up), axis=1)
            if not len(away) or away.min() > radius + _MARGIN:
                return spot
        return otherwise


def _block(
    top: Float[np.ndarray, "3"],
    up: Float[np.ndarray, "3"],
    level: float,
    height: float,
    radius: float,
    colored: bool,
    rng: np.random.Generator,
) -> PointCloud:
    """Top and sides of a block under a point, often smaller than what is on it."""
    half = np.clip(rng.uniform(0.5, 1.3, 2) * radius, 0.015, 0.12)
    side = np.cross(up, rng.normal(size=3))
    side /= np.linalg.norm(side)
    other = np.cross(up, side)
    areas = np.array([4.0 * half[0] * half[1], 4.0 * half[1] * height, 4.0 * half[0] * height])
    on_top, *on_sides = np.maximum(areas / _SPACING**2, 4).astype(int)
    a, b = rng.uniform(-1, 1, on_top), rng.uniform(-1, 1, on_top)
    rows = [np.stack([a * half[0], b * half[1], np.full(on_top, height)], axis=1)]
    for axis, count in enumerate(on_sides):
        local = np.empty((count, 3))
        local[:, axis] = rng.choice([-1.0, 1.0], count) * half[axis]
        local[:, 1 - axis] = rng.uniform(-1, 1, count) * half[1 - axis]
        local[:, 2] = rng.uniform(0, height, count)
        rows.append(local)
    local = np.concatenate(rows)
    ground = top + (level - top @ up) * up
    points = ground + local @ np.stack([side, other, up])
    colors = np.repeat(rng.uniform(size=(1, 3)), len(points), axis=0) if colored else None
    return PointCloud._trusted(
        points.astype(np.float32), None if colors is None else colors.astype(np.float32)
    )
