"""Thinned clouds: the points that an encoder works on, with the shape of what they stand for.

An encoder takes one point for each 1.7 cm of a surface, since its cost grows with the edges between
points. A cloud knows more: whether a surface is flat or bent there, an edge, a rod or two walls.
Moments of the cloud around each point say so, as numbers that turn with the cloud.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from handful.clouds import NeighbourIndex, PointCloud, voxel_filter
from handful.geometry import spherical_harmonics

DEGREE = 2
"""Highest degree of the moments."""
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
    offset = (points[edges.source].astype(np.float64) - centers[edges.target]) / radius
    square = np.minimum(np.square(offset).sum(axis=1), 1.0)
    values = spherical_harmonics(
        torch.from_numpy(offset), DEGREE, normalize=False, normalization="norm"
    ).numpy()
    values[:, 0] = square
    weight = np.square(1.0 - square)
    total = np.bincount(edges.target, weight, minlength=len(centers))
    sums = [
        np.bincount(edges.target, weight * column, minlength=len(centers)) for column in values.T
    ]
    return np.stack(sums, axis=1) / np.maximum(total, 1e-9)[:, None]
