"""Voxel filter: one point per occupied cell."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from handful.clouds._cloud import MIN_POINTS, PointCloud, Points
from handful.errors import EmptyCloudError, OptionError

_AT_ONCE = 1_000_000  # Points whose cells are computed at once, in double precision.


def voxel_filter(cloud: PointCloud, size: float) -> PointCloud:
    """Replace the points of each cubic cell by their barycentre and mean colour.

    The grid is anchored at the cloud's lowest corner, so the result does not depend on where the
    cloud lies; it does depend on how the cloud is turned.

    Args:
        cloud: The cloud.
        size: Edge of a cell, metres.

    Raises:
        OptionError: `size` is no positive number, or so small that cells cannot be counted.
        EmptyCloudError: The whole cloud is in one cell.
    """
    if not (np.isfinite(size) and size > 0):
        raise OptionError(f"voxel size is {size} m: need a positive number, for example 0.017.")
    cell = cell_numbers(cloud.points, size)
    _, owner, counts = np.unique(cell, return_inverse=True, return_counts=True)
    owner = owner.reshape(-1)
    if len(counts) < MIN_POINTS:
        raise EmptyCloudError(
            f"voxel size {size} m leaves {len(counts)} point of a cloud that is "
            f"{cloud.extent.max():.3g} m wide: use a smaller one."
        )

    def mean(values: Points) -> Float[np.ndarray, "cells 3"]:
        sums = [np.bincount(owner, column, minlength=len(counts)) for column in values.T]
        return (np.stack(sums, axis=1) / counts[:, None]).astype(values.dtype)

    colors = None if cloud.colors is None else mean(cloud.colors).clip(0.0, 1.0)
    return PointCloud._trusted(mean(cloud.points), colors, cloud.dropped)


def cell_numbers(points: Points, size: float) -> Int[np.ndarray, "points"]:
    """One integer per point that is the same exactly for points of the same cell."""
    low = points.min(axis=0).astype(np.float64)
    with np.errstate(over="ignore"):
        shape = np.floor((points.max(axis=0) - low) / size) + 1.0
    if not np.log2(shape).sum() < 62.0:
        raise OptionError(
            f"voxel size {size} m gives {' x '.join(f'{n:.4g}' for n in shape)} cells: use a "
            "larger one."
        )
    _, columns, layers = shape.astype(np.int64)
    numbers = np.empty(len(points), dtype=np.int64)
    for start in range(0, len(points), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        index = np.floor((points[some] - low) / size).astype(np.int64)
        numbers[some] = (index[:, 0] * columns + index[:, 1]) * layers + index[:, 2]
    return numbers
