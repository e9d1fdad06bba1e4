"""Thinned clouds: the points that an encoder works on, with the shape of what they stand for.

An encoder takes one point for each 1.7 cm of a surface, since its cost grows with the edges between
points. A cloud knows more: whether a surface is flat or bent there, an edge, a rod or two walls.
Moments of the cloud around each point say so, as numbers that turn with the cloud.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import no_type_check

import numpy as np
from jaxtyping import Bool, Float, Int

from handful._compiled import compiled
from handful.clouds import NeighbourIndex, PointCloud, voxel_filter

DEGREE = 2
"""Highest degree of the moments."""
COMPONENTS = (DEGREE + 1) ** 2
"""Of the moments: those of degree 0, then 1, then 2."""
AT_ONCE = 20_000
"""Points whose surroundings are looked at in one go: bounds memory."""


@dataclass(frozen=True, eq=False)
class ThinnedCloud:
    """What is left of a cloud for an encoder.

    Attributes:
        cloud: Thinned.
        moments: `local_moments` of the whole cloud around each point, or None if not asked for.
    """

    cloud: PointCloud
    moments: Float[np.ndarray, "points components"] | None = None

    def __len__(self) -> int:
        return len(self.cloud)

    @property
    def points(self) -> Float[np.ndarray, "points 3"]:
        """Positions, metres."""
        return self.cloud.points

    def selected(self, which: Bool[np.ndarray, "points"] | Int[np.ndarray, "kept"]) -> ThinnedCloud:
        """The points that a mask or an index array names, with their moments."""
        moments = None if self.moments is None else self.moments[which]
        return ThinnedCloud(self.cloud.selected(which), moments)


def thinned(cloud: PointCloud, voxel_size: float | None, shape_radius: float) -> ThinnedCloud:
    """A cloud as an encoder takes it.

    Args:
        cloud: The cloud.
        voxel_size: Edge of the voxel filter's cells, metres; None leaves the cloud as it is.
        shape_radius: Radius of the moments, metres; 0 for none.
    """
    few = cloud if voxel_size is None else voxel_filter(cloud, voxel_size)
    if shape_radius == 0:
        return ThinnedCloud(few)
    return ThinnedCloud(few, local_moments(few.points, cloud.points, shape_radius))


def local_moments(
    centers: Float[np.ndarray, "centers 3"],
    points: Float[np.ndarray, "points 3"],
    radius: float,
) -> Float[np.ndarray, "centers components"]:
    """Weighted means of |u|^l Y_l(u) over the points around each center, u = (x - center) / radius.

    The weight (1 - |u|^2)^2 fades with the distance, so that points come and go smoothly. Degree 0
    would be one everywhere; it holds the mean of |u|^2 instead, the size of what is there. A degree
    l turns with D_l(R) when centers and points are turned. A center with no point around it gets
    zeros.

    Args:
        centers: Where, metres.
        points: Of what, metres.
        radius: How far around, metres.
    """
    index = NeighbourIndex(points)
    parts = [
        _moments(centers[start : start + AT_ONCE], points, index, radius)
        for start in range(0, len(centers), AT_ONCE)
    ]
    return np.concatenate(parts)


def _moments(
    centers: Float[np.ndarray, "centers 3"],
    points: Float[np.ndarray, "points 3"],
    index: NeighbourIndex,
    radius: float,
) -> Float[np.ndarray, "centers components"]:
    edges = index.around(centers, radius)
    sums = np.zeros((len(centers), COMPONENTS + 1))
    ends = centers.astype(np.float64), points.astype(np.float64)
    _add_moments(*ends, edges.target, edges.source, radius, sums)
    return sums[:, :COMPONENTS] / np.maximum(sums[:, COMPONENTS:], 1e-9)


@compiled
@no_type_check
def _add_moments(centers, points, target, source, radius, sums):
    """Add the weighted harmonics of each pair to the sums of its center, and the weight itself."""
    root = np.sqrt(3.0)
    for e in range(len(target)):
        i, j = target[e], source[e]
        x = (points[j, 0] - centers[i, 0]) / radius
        y = (points[j, 1] - centers[i, 1]) / radius
        z = (points[j, 2] - centers[i, 2]) / radius
        square = min(x * x + y * y + z * z, 1.0)
        weight = (1.0 - square) ** 2
        sums[i, 0] += weight * square
        sums[i, 1] += weight * x
        sums[i, 2] += weight * y
        sums[i, 3] += weight * z
        sums[i, 4] += weight * root * x * z
        sums[i, 5] += weight * root * x * y
        sums[i, 6] += weight * (y * y - 0.5 * (x * x + z * z))
        sums[i, 7] += weight * root * y * z
        sums[i, 8] += weight * root * 0.5 * (z * z - x * x)
        sums[i, 9] += weight
