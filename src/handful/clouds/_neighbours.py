"""Radius neighbours as flat index arrays; no neighbour is ever left out."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial import cKDTree

from handful.clouds._cells import Cells
from handful.errors import OptionError

MAX_EDGES = 50_000_000
"""Of one graph: 0.8 GB of indices alone."""


class Edges(NamedTuple):
    """Directed edges of a graph, sorted by `target`. Those of a target are in a fixed order.

    Attributes:
        target: Index of the point that looks around [edges].
        source: Index of the neighbour it sees [edges].
    """

    target: Int[np.ndarray, "edges"]
    source: Int[np.ndarray, "edges"]


class NeighbourIndex:
    """Points prepared for many neighbour searches.

    Args:
        points: Positions [points, 3].
    """

    def __init__(self, points: Float[np.ndarray, "points 3"]) -> None:
        self._points = points
        self._cells: dict[float, Cells] = {}

    def graph(self, radius: float) -> Edges:
        """All ordered pairs of different points no farther apart than `radius`."""
        found = self.around(self._points, radius)
        different = found.target != found.source
        return Edges(found.target[different], found.source[different])

    def around(self, queries: Float[np.ndarray, "queries 3"], radius: float) -> Edges:
        """All points no farther than `radius` from each query; a coinciding point counts.

        Args:
            queries: Where to look from [queries, 3]; `Edges.target` counts these.
            radius: In the unit of the points.
        """
        return Edges(*self._within(radius).pairs(queries, MAX_EDGES))

    def near(
        self, queries: Float[np.ndarray, "queries 3"], radius: float
    ) -> Bool[np.ndarray, "queries"]:
        """Whether any point is no farther than `radius` from each query."""
        return self._within(radius).near(queries)

    def _within(self, radius: float) -> Cells:
        if not (np.isfinite(radius) and radius > 0):
            raise OptionError(f"neighbour radius is {radius}: need a positive, finite number.")
        if radius not in self._cells:
            self._cells[radius] = Cells(self._points, radius)
        return self._cells[radius]

    def distance(
        self, queries: Float[np.ndarray, "queries 3"], at_most: float = np.inf
    ) -> Float[np.ndarray, "queries"]:
        """Distance from each query to the nearest point.

        Args:
            queries: Where to look from [queries, 3].
            at_most: Distances from this on come out as infinite, and cost next to nothing.
        """
        return self._tree.query(queries, distance_upper_bound=at_most)[0]

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self._points)


def radius_graph(points: Float[np.ndarray, "points 3"], radius: float) -> Edges:
    """All ordered pairs of different points no farther apart than `radius`.

    Args:
        points: Positions [points, 3].
        radius: In the unit of `points`.
    """
    return NeighbourIndex(points).graph(radius)


def radius_neighbours(
    queries: Float[np.ndarray, "queries 3"], points: Float[np.ndarray, "points 3"], radius: float
) -> Edges:
    """All points no farther than `radius` from each query; see `NeighbourIndex.around`."""
    return NeighbourIndex(points).around(queries, radius)
