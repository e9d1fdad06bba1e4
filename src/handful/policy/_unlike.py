"""Inputs that are unlike those of training: sparser, noisier, wider; said before poses are trusted.

Training makes up some noise and some sparse scenes. What is beyond that is told to the user, with
what to do about it. Nothing is refused: a model may still do well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree

from handful.clouds import PointCloud
from handful.errors import OptionError

SAMPLES = 600
"""Points at which a cloud is measured, drawn evenly."""
MOST = 300_000
"""Points that are looked at, at most: bounds time and memory."""
CELL = 0.005
"""Metres between the points that planes are fitted to."""
NEIGHBOURS = 24
"""Points around each that a plane is fitted to."""
SPARSER, NOISIER, WIDER = 2.5, 2.0, 3.0
"""Factors beyond which an input is unlike those of training."""
NOISE_FLOOR = 0.003
"""Metres of roughness that training makes up anyway."""


@dataclass(frozen=True)
class CloudStatistics:
    """What a cloud is like; metres.

    Attributes:
        spacing: Median distance of neighbouring points.
        roughness: Median distance of points from planes through their neighbours: noise, where
            most of a scene is flat.
        extent: Longest side of the box around the cloud.
    """

    spacing: float
    roughness: float
    extent: float

    def __post_init__(self) -> None:
        values = (self.spacing, self.roughness, self.extent)
        if not all(np.isfinite(value) and 0 <= value < 1e3 for value in values):
            raise OptionError(f"{self}: need lengths in metres.")

    @classmethod
    def of(cls, cloud: PointCloud) -> CloudStatistics:
        """Measure a cloud at some of its points."""
        every = -(-len(cloud) // MOST)
        points = cloud.points[::every].astype(np.float64)
        distance, _ = cKDTree(points).query(_some(points), k=[min(2, len(points))])
        # On a surface, every k-th point is sqrt(k) times as far from the next as every one.
        spacing = float(np.median(distance)) / math.sqrt(every)
        return cls(spacing, _roughness(points), float(cloud.extent.max()))

    @classmethod
    def typical(cls, clouds: list[PointCloud]) -> CloudStatistics:
        """The medians over several clouds."""
        all_of = [cls.of(cloud) for cloud in clouds]
        return cls(
            *(
                float(np.median([getattr(one, name) for one in all_of]))
                for name in ("spacing", "roughness", "extent")
            )
        )

    def unlike(self, cloud: PointCloud, voxel: float) -> list[str]:
        """In what a cloud is unlike the ones that were measured, and what to do; nothing if alike.

        Args:
            cloud: The input.
            voxel: Size to which clouds are thinned before anything else, metres: what is denser
                makes no difference.
        """
        now = CloudStatistics.of(cloud)
        usual = max(self.spacing, voxel)
        told = []
        if now.spacing > SPARSER * usual:
            told.append(
                f"the scene has a point every {1e3 * now.spacing:.0f} mm, training had one every "
                f"{1e3 * usual:.0f} mm: move the camera closer, or record more views."
            )
        if now.roughness > NOISIER * max(self.roughness, NOISE_FLOOR):
            told.append(
                f"surfaces are rough by {1e3 * now.roughness:.1f} mm, in training by "
                f"{1e3 * self.roughness:.1f} mm: average several frames, or filter the depth."
            )
        if now.extent > WIDER * self.extent:
            told.append(
                f"the scene is {now.extent:.1f} m wide, training had {self.extent:.1f} m: crop it "
                "to where the robot works."
            )
        return told


def _some(points: Float[np.ndarray, "points 3"]) -> Float[np.ndarray, "some 3"]:
    return points[np.linspace(0, len(points) - 1, min(SAMPLES, len(points))).astype(np.int64)]


def _roughness(points: Float[np.ndarray, "points 3"]) -> float:
    """Median distance of points from planes through their neighbours, metres.

    One point of each cell is taken, so that the neighbours span more than the noise however dense
    the cloud is.
    """
    cells = np.floor(points / CELL).astype(np.int64)
    _, first = np.unique(cells, axis=0, return_index=True)
    few = points[np.sort(first)]
    count = min(NEIGHBOURS, len(few))
    _, index = cKDTree(few).query(_some(few), k=range(1, count + 1))
    around = few[index] - few[index].mean(axis=1, keepdims=True)
    across = np.linalg.eigvalsh(np.einsum("spi,spj->sij", around, around) / count)[:, 0]
    return float(np.sqrt(np.median(across.clip(min=0.0))))
