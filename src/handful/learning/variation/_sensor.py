"""How cameras would have seen a training scene: from where, with which noise, how densely."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from handful.clouds import PointCloud
from handful.errors import OptionError
from handful.learning.variation._visibility import visible_from

DISTANCES = (0.45, 1.1)
"""Metres between a camera and what it looks at."""
LEVELS = (0.25, 0.95)
"""Sine of the elevation of a camera above the support."""
ONE_CAMERA = 0.5
"""Share of the scenes with one camera: the fewest that a user may have, and the hardest."""
LOCAL = 0.25
"""Metres around the target within which visibility is worked out; beyond, all is shown."""
LEAST_LOST = 0.3
"""Share of the points that sparse scenes lose at least, unless `sparsest` is less."""
FLYING_REACH = 0.03
"""Metres by which flying pixels leave their surface along the ray, at most."""


@dataclass(frozen=True)
class Sensor:
    """Cameras of a training scene; probabilities, and lengths in metres.

    Attributes:
        most_cameras: Their number is 1 in half of the scenes, else drawn from 1 to this.
        partial: Share of the scenes that show only what these cameras see. Composed scenes always
            do.
        noisy: Share of the scenes with noise.
        sigma: Largest standard deviation of depth; drawn from 0 to it. Clouds of training are
            thinned, so this is what is left of the noise of several pixels.
        flying: Largest share of points that are flying pixels, in noisy scenes.
        sparse: Share of the scenes that are left with few points.
        sparsest: Largest share of the points that is left out there.
    """

    most_cameras: int = 3
    partial: float = 0.0
    noisy: float = 0.0
    sigma: float = 0.003
    flying: float = 0.03
    sparse: float = 0.0
    sparsest: float = 0.8

    def __post_init__(self) -> None:
        if not 1 <= self.most_cameras <= 20:
            raise OptionError(f"sensor cameras: {self.most_cameras}: need 1 to 20.")
        for name, most in (
            ("partial", 1),
            ("noisy", 1),
            ("sparse", 1),
            ("flying", 1),
            ("sparsest", 0.99),
            ("sigma", 0.1),
        ):
            value = getattr(self, name)
            if not (np.isfinite(value) and 0 <= value <= most):
                raise OptionError(f"sensor {name} is {value}: need 0 to {most}.")

    def cameras(
        self,
        target: Float[np.ndarray, "3"],
        up: Float[np.ndarray, "3"] | None,
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "cameras 3"]:
        """Positions of some cameras that look at a target, above its support if there is one."""
        count = 1 if rng.uniform() < ONE_CAMERA else int(rng.integers(1, self.most_cameras + 1))
        direction = rng.normal(size=(count, 3))
        if up is not None:
            direction -= (direction @ up)[:, None] * up
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        if up is not None:
            rise = rng.uniform(*LEVELS, count)[:, None]
            direction = np.sqrt(1.0 - rise**2) * direction + rise * up
        return target + rng.uniform(*DISTANCES, count)[:, None] * direction

    def seen(
        self,
        cloud: PointCloud,
        eyes: Float[np.ndarray, "cameras 3"],
        target: Float[np.ndarray, "3"],
    ) -> PointCloud:
        """What the cameras see of a cloud near a target, and all that is farther away."""
        local = np.square(cloud.points - target).sum(axis=1) < LOCAL**2
        (near,) = np.nonzero(local)
        if len(near) < 5:
            return cloud
        part = cloud.selected(near)
        found = np.zeros(len(near), dtype=bool)
        for eye in eyes:
            found |= visible_from(part, eye)
        if found.sum() < 5:
            return cloud
        kept = ~local
        kept[near] = found
        return cloud.selected(kept)

    def disturbed(
        self, cloud: PointCloud, eyes: Float[np.ndarray, "cameras 3"], rng: np.random.Generator
    ) -> PointCloud:
        """A cloud with noise along the rays, and with fewer points, or as it is."""
        if rng.uniform() < self.sparse:
            left = 1.0 - rng.uniform(min(LEAST_LOST, self.sparsest), self.sparsest)
            cloud = cloud.subsampled(max(2, round(left * len(cloud))), rng)
        if rng.uniform() >= self.noisy:
            return cloud
        points = cloud.points.astype(np.float64)
        camera: Int[np.ndarray, "points"] = rng.integers(len(eyes), size=len(points))
        ray = points - eyes[camera]
        ray /= np.linalg.norm(ray, axis=1, keepdims=True)
        depth = rng.normal(0.0, rng.uniform(0.0, self.sigma), len(points))
        flies = rng.uniform(size=len(points)) < rng.uniform(0.0, self.flying)
        depth[flies] += rng.uniform(-1.0, 1.0, int(flies.sum())) * FLYING_REACH
        moved = (points + depth[:, None] * ray).astype(cloud.points.dtype)
        return PointCloud._trusted(moved, cloud.colors, cloud.dropped)
