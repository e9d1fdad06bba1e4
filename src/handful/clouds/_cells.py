"""Points sorted into cubic cells: all pairs within a radius, by compiled loops.

A cell is no smaller than the radius, so what is near a position lies in its cell or in one of the
26 around it. Points are sorted by cell, cells along z one after the other, so that those of three
neighbouring cells follow one another, too.
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np
from jaxtyping import Bool, Float, Int

from handful._compiled import compiled
from handful.errors import CloudError

MOST_CELLS = 2**20
"""Along an axis: the number of a cell then fits an integer."""
_ROOM = 1.0 + 1e-9
"""Size of a cell in radii: rounding must not put two cells between points one radius apart."""


class Cells:
    """Points prepared for searches within one radius.

    Args:
        points: Positions [points, 3], finite.
        radius: Of all searches.
    """

    def __init__(self, points: Float[np.ndarray, "points 3"], radius: float) -> None:
        exact = np.ascontiguousarray(points, dtype=np.float64)
        self._radius, self._size = radius, radius * _ROOM
        self._low = exact.min(axis=0, initial=np.inf)
        extent = float((exact.max(axis=0, initial=-np.inf) - self._low).max())
        if not extent < self._size * MOST_CELLS:
            raise CloudError(
                f"points spread over {extent:g} m: need less than {self._size * MOST_CELLS:g} m "
                f"for neighbours within {radius:g} m. Crop the cloud."
            )
        cells = ((exact - self._low) / self._size).astype(np.int64)
        self._shape = cells.max(axis=0, initial=0) + 1
        keys = (cells[:, 0] * self._shape[1] + cells[:, 1]) * self._shape[2] + cells[:, 2]
        self._order = np.argsort(keys, kind="stable")
        self._keys, self._points = keys[self._order], exact[self._order]

    def pairs(
        self, queries: Float[np.ndarray, "queries 3"], most: int
    ) -> tuple[Int[np.ndarray, "pairs"], Int[np.ndarray, "pairs"]]:
        """Query and point of each pair within the radius, sorted by query, then by cell.

        Args:
            queries: Where to look from, finite.
            most: More pairs are an error.
        """
        none = np.empty(0, dtype=np.int64)
        count = _search(*self._arguments(queries), most, none, none)
        if count > most:
            raise CloudError(
                f"{len(self._points):,} points have more than {most:,} neighbours within "
                f"{self._radius:g} m. Thin the cloud, crop it, or use a smaller radius."
            )
        target, source = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        _search(*self._arguments(queries), most, target, source)
        return target, source

    def near(self, queries: Float[np.ndarray, "queries 3"]) -> Bool[np.ndarray, "queries"]:
        """Whether any point is within the radius of each query."""
        found = np.zeros(len(queries), dtype=np.bool_)
        _look(*self._arguments(queries), found)
        return found

    def _arguments(self, queries: Float[np.ndarray, "queries 3"]) -> tuple[object, ...]:
        exact = np.ascontiguousarray(queries, dtype=np.float64)
        grid = self._low, self._size, self._shape
        return exact, self._points, self._keys, self._order, *grid, self._radius**2


@compiled
@no_type_check
def _search(
    queries, points, keys, order, low, size, shape, square, most, target, source
):  # fmt: skip
    """Count pairs until they are more than `most`; write them down where there is room for them."""
    writing = len(target) > 0
    end = 0
    for i in range(len(queries)):
        x, y, z = queries[i, 0], queries[i, 1], queries[i, 2]
        a, b, c = _cell(x, low[0], size), _cell(y, low[1], size), _cell(z, low[2], size)
        first_c, last_c = max(c - 1, 0), min(c + 1, shape[2] - 1)
        for p in range(max(a - 1, 0), min(a + 2, shape[0])):
            for q in range(max(b - 1, 0), min(b + 2, shape[1])):
                if first_c > last_c:
                    continue
                row = (p * shape[1] + q) * shape[2]
                k = np.searchsorted(keys, row + first_c)
                while k < len(keys) and keys[k] <= row + last_c:
                    dx, dy, dz = points[k, 0] - x, points[k, 1] - y, points[k, 2] - z
                    if dx * dx + dy * dy + dz * dz <= square:
                        if writing:
                            target[end] = i
                            source[end] = order[k]
                        end += 1
                    k += 1
        if end > most:
            break
    return end


@compiled
@no_type_check
def _look(queries, points, keys, order, low, size, shape, square, found):
    """Write whether each query has a point near it."""
    for i in range(len(queries)):
        x, y, z = queries[i, 0], queries[i, 1], queries[i, 2]
        a, b, c = _cell(x, low[0], size), _cell(y, low[1], size), _cell(z, low[2], size)
        first_c, last_c = max(c - 1, 0), min(c + 1, shape[2] - 1)
        for p in range(max(a - 1, 0), min(a + 2, shape[0])):
            for q in range(max(b - 1, 0), min(b + 2, shape[1])):
                if first_c > last_c or found[i]:
                    continue
                row = (p * shape[1] + q) * shape[2]
                k = np.searchsorted(keys, row + first_c)
                while k < len(keys) and keys[k] <= row + last_c and not found[i]:
                    dx, dy, dz = points[k, 0] - x, points[k, 1] - y, points[k, 2] - z
                    found[i] = dx * dx + dy * dy + dz * dz <= square
                    k += 1


@numba.njit(inline="always")
@no_type_check
def _cell(coordinate, low, size):
    """The cell of a coordinate along an axis; far outside, one that is near none."""
    return int(np.floor(min(max((coordinate - low) / size, -2.0), MOST_CELLS + 2.0)))
