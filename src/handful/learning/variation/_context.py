"""Context dropout: show the model the target with more or less of what happens to stand around it.

A model that sees whole scenes learns the table along with the mug, and is lost when the mug lies
on its side. A random ball around the target, sometimes cut by a random plane, takes the
surroundings away. What is not the target must be seen as well, to be told from it. A whole scene
shows all of it at five times the cost of a ball, most of it table; balls about random other points
show as much in the course of training.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.clouds import PointCloud
from handful.errors import OptionError

LARGEST_PATCH = 1.5
"""Largest radius of the balls of a patchwork, in units of the smallest crop."""


@dataclass(frozen=True)
class ContextDropout:
    """How often and how closely scenes are cropped; lengths in metres.

    Attributes:
        probability: Of cropping a scene at all.
        smallest: Smallest radius of the ball.
        largest: Largest radius of the ball.
        offset: Standard deviation of each coordinate of the ball's centre about the target.
        cut: Probability that a crop is cut by a plane, too.
        nearest_cut: Least distance between plane and target, in units of `largest`.
        least_points: A crop with fewer points is not made.
        whole: Of the scenes that are not cropped, the share that shows everything. The others show
            balls about the target and about other points.
        patches: Number of the other points, drawn at random.
    """

    probability: float = 0.6
    smallest: float = 0.06
    largest: float = 0.16
    offset: float = 0.015
    cut: float = 0.5
    nearest_cut: float = 0.25
    least_points: int = 200
    whole: float = 1.0
    patches: int = 1

    def __post_init__(self) -> None:
        for name in ("probability", "cut", "nearest_cut", "whole"):
            if not 0 <= getattr(self, name) <= 1:
                raise OptionError(f"context dropout {name} is {getattr(self, name)}: need 0 to 1.")
        if self.patches < 0:
            raise OptionError(f"context dropout patches is {self.patches}: need 0 or more.")
        if not 0 < self.smallest <= self.largest < np.inf or not 0 <= self.offset < np.inf:
            raise OptionError(
                f"context dropout radii are {self.smallest} to {self.largest}, offset "
                f"{self.offset}: need positive metres in order."
            )

    def apply(
        self, scene: PointCloud, target: Float[np.ndarray, "3"], rng: np.random.Generator
    ) -> PointCloud:
        """The scene, or a part of it around `target`."""
        if rng.uniform() >= self.probability:
            return scene if rng.uniform() < self.whole else self._patchwork(scene, target, rng)
        center = target + rng.normal(0.0, self.offset, 3)
        distance = np.linalg.norm(scene.points - center, axis=1)
        kept = distance <= rng.uniform(self.smallest, self.largest)
        if rng.uniform() < self.cut:
            normal = rng.normal(size=3)
            side = (scene.points - target) @ (normal / np.linalg.norm(normal))
            kept &= side <= rng.uniform(self.nearest_cut, 1.0) * self.largest
        return scene.selected(kept) if kept.sum() >= self.least_points else scene

    def _patchwork(
        self, scene: PointCloud, target: Float[np.ndarray, "3"], rng: np.random.Generator
    ) -> PointCloud:
        """The target with some of its surroundings, and some other parts of the scene."""
        others = scene.points[rng.integers(len(scene), size=self.patches)]
        kept = np.zeros(len(scene), dtype=bool)
        for center in (target, *others):
            radius = rng.uniform(1.0, LARGEST_PATCH) * self.smallest
            kept |= np.square(scene.points - center).sum(axis=1) <= radius**2
        return scene.selected(kept) if kept.sum() >= self.least_points else scene
