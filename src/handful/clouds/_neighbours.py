"""Radius neighbours as flat index arrays; no neighbour is ever left out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import cKDTree

from handful.errors import CloudError, OptionError

MAX_EDGES = 50_000_000
"""Of one graph: 0.8 GB of indices alone."""


class Edges(NamedTuple):
    """Directed edges of a graph, sorted by `target`, then by `source`.

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
        self._count = len(points)
        self._tree = cKDTree(points)

    def graph(self, radius: float) -> Edges:
        """All ordered pairs of different points no farther apart than `radius`."""
        _check_radius(radius)
        self._check_edges(self._tree, radius)
        pairs = self._tree.query_pairs(radius, output_type="ndarray")
        ends = np.concatenate([pairs, pairs[:, ::-1]])
        return _sorted_edges(ends[:, 0], ends[:, 1], self._count)

    def around(self, queries: Float[np.ndarray, "queries 3"], radius: float) -> Edges:
        """All points no farther than `radius` from each query; a coinciding point counts.

        Args:
            queries: Where to look from [queries, 3]; `Edges.target` counts these.
            radius: In the unit of the points.
        """
        _check_radius(radius)
        tree = cKDTree(queries)
        self._check_edges(tree, radius)
        found = tree.sparse_distance_matrix(self._tree, radius, output_type="ndarray")
        return _sorted_edges(found["i"], found["j"], self._count)

    def _check_edges(self, tree: cKDTree, radius: float) -> None:
        """Refuse more edges than memory holds; counted only where there may be so many."""
        if tree.n * self._count <= MAX_EDGES:
            return
        edges = int(self._tree.count_neighbors(tree, radius))
        if edges > MAX_EDGES:
            raise CloudError(
                f"{self._count:,} points have {edges:,} neighbours within {radius:g} m: need at "
                f"most {MAX_EDGES:,}. Thin the cloud, crop it, or use a smaller radius."
            )

    def distance(
        self, queries: Float[np.ndarray, "queries 3"], at_most: float = np.inf
    ) -> Float[np.ndarray, "queries"]:
        """Distance from each query to the nearest point.

        Args:
            queries: Where to look from [queries, 3].
            at_most: Distances from this on come out as infinite, and cost next to nothing.
        """
        return self._tree.query(queries, distance_upper_bound=at_most)[0]


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


def _sorted_edges(
    target: Int[np.ndarray, "edges"], source: Int[np.ndarray, "edges"], sources: int
) -> Edges:
    """Edges in the one order that does not depend on how the tree was walked."""
    code = np.sort(target.astype(np.int64) * sources + source)
    return Edges(*np.divmod(code, max(sources, 1)))


def _check_radius(radius: float) -> None:
    if not (np.isfinite(radius) and radius > 0):
        raise OptionError(f"neighbour radius is {radius}: need a positive, finite number.")
