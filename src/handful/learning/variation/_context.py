"""Context dropout: show the model the target with more or less of what happens to stand around it.

A model that sees whole scenes learns the table along with the mug, and is lost when the mug lies
on its side. A random ball around the target, sometimes cut by a random plane, takes the
surroundings away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.clouds import PointCloud
from handful.errors import OptionError


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
    """

    probability: float = 0.6
    smallest: float = 0.06
    largest: float = 0.16
    offset: float = 0.015
    cut: float = 0.5
    nearest_cut: float = 0.25
    least_points: int = 200

    def __post_init__(self) -> None:
        for name in ("probability", "cut", "nearest_cut"):
            if not 0 <= getattr(self, name) <= 1:
                raise OptionError(f"context dropout {name} is {getattr(self, name)}: need 0 to 1.")
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
            return scene
        center = target + rng.normal(0.0, self.offset, 3)
        distance = np.linalg.norm(scene.points - center, axis=1)
        kept = distance <= rng.uniform(self.smallest, self.largest)
        if rng.uniform() < self.cut:
            normal = rng.normal(size=3)
            side = (scene.points - target) @ (normal / np.linalg.norm(normal))
            kept &= side <= rng.uniform(self.nearest_cut, 1.0) * self.largest
        return scene.selected(kept) if kept.sum() >= self.least_points else scene
