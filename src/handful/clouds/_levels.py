"""Level of detail: few points of a large cloud that show it, and all of those near a place."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from handful._checks import MAX_DERIVED_SEED, whole_number
from handful.clouds._cloud import PointCloud
from handful.clouds._voxels import cell_numbers

MOST_SHOWN = 60_000
"""Points that show a whole cloud; a page draws so many at every turn of the mouse."""
MOST_NEAR = 20_000
"""Points that are shown besides, near a place."""
_SIZES = 24
"""Sizes of cells that are tried, each a fifth larger than the one before."""


class LevelOfDetail:
    """Chooses points of a cloud to show; every one of them is a point of the cloud, unchanged.

    A cloud of at most `most` points is shown as it is. Of a larger one, the first point of each
    occupied cell of a grid is shown, with the smallest cells for which that are few enough. Every
    point of the cloud then has a shown one within its cell.

    Args:
        cloud: The cloud.
        most: Points of the overview, at most.

    Attributes:
        cell: Edge of the grid's cells, metres; 0 where everything is shown.
        overview: Numbers of the points that show the whole cloud, in order.
    """

    def __init__(self, cloud: PointCloud, most: int = MOST_SHOWN) -> None:
        self.cloud = cloud
        self._most = whole_number("most", most, 2, MAX_DERIVED_SEED)
        self.cell, self.overview = self._chosen()

    def _chosen(self) -> tuple[float, Int[np.ndarray, "shown"]]:
        points = self.cloud.points
        if len(points) <= self._most:
            return 0.0, np.arange(len(points))
        # A surface that filled the bounding box's largest side with `most` cells.
        size = float(self.cloud.extent.max()) / np.sqrt(self._most) / 2.0
        first = np.arange(2)
        for _ in range(_SIZES):
            _, first = np.unique(cell_numbers(points, size), return_index=True)
            if len(first) <= self._most:
                break
            size *= max(1.2, float(np.sqrt(len(first) / self._most)))
        return size, np.sort(first)[: self._most]

    def near(
        self, center: Float[np.ndarray, "3"], radius: float, most: int = MOST_NEAR
    ) -> Int[np.ndarray, "near"]:
        """Numbers of the points around a place, in order: all, or the nearest where too many.

        Args:
            center: The place, in the frame of the cloud.
            radius: Metres.
            most: How many at most.
        """
        offset = self.cloud.points - np.asarray(center, dtype=self.cloud.points.dtype)
        square = np.einsum("pi,pi->p", offset, offset)
        found = np.flatnonzero(square <= radius**2)
        if len(found) > most:
            found = np.sort(found[np.argpartition(square[found], most)[:most]])
        return found

    def shown(
        self, center: Float[np.ndarray, "3"] | None = None, radius: float = 0.12
    ) -> Int[np.ndarray, "shown"]:
        """Numbers of all points to show: the overview and, around a place, every detail."""
        if center is None or self.cell == 0.0:
            return self.overview
        return np.union1d(self.overview, self.near(center, radius))
