"""Compiled loops over edges: features into the frames of edges and out of them.

Array operations take a pass over memory for each of gathering, turning, scaling and summing the
features of edges, and the passes take longer than the arithmetic. Here one loop does what belongs
together. A kernel that turns works on one degree l: its size is then known to the compiler, which
keeps a row in vector registers. Kernels are compiled at their first use and kept on disk (numba).

Arrays: features [points, components, channels], Wigner matrices of one degree [edges, 2l+1, 2l+1],
and arrays of the edges' frames [edges, rows, channels], with rows by order (`_layout`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, no_type_check

import numba
import numpy as np
from numba.np.unsafe.ndarray import to_fixed_tuple

from handful.nn._layout import radial_of_row, rows_by_order

COMPILED: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz"},
}
"""How kernels are compiled. Sums may be reordered; infinities and NaN are kept as they are."""


class TurningKernels(NamedTuple):
    """Turn features of one degree; each changes its last argument in place.

    Attributes:
        inward: (features, points, wigner, frames): frames[e] = D_e features[points[e]].
        outward: (frames, points, wigner, features): features[points[e]] += D_eᵀ frames[e].
    """

    inward: Any
    outward: Any


class ScalingKernels(NamedTuple):
    """Scale the rows of frames; each changes its last arguments in place.

    Attributes:
        scale: (frames, factors, scaled): each row times its radial factor.
        scale_back: (frames, factors, slopes, by_factors): `slopes`, a loss's derivatives by the
            scaled rows, become those by the rows; `by_factors` are those by the factors.
        weigh_back: (frames, strength, slopes, by_strength): the same for rows that were all
            multiplied by the strength [edges, channels] of their edge.
    """

    scale: Any
    scale_back: Any
    weigh_back: Any


@lru_cache(maxsize=64)
@no_type_check
def turning_kernels(degree: int, max_degree: int, max_order: int, channels: int) -> TurningKernels:
    """Kernels for a degree of features up to `max_degree`. Orders above `max_order` are left out.

    All arguments are constants to the compiler.
    """
    row_of = {row: place for place, row in enumerate(rows_by_order(max_degree, max_order))}
    reach = min(degree, max_order)
    size, first, orders, skipped = 2 * degree + 1, degree**2, 2 * reach + 1, degree - reach
    rows = np.array([row_of[first + skipped + order] for order in range(orders)])

    @numba.njit(**COMPILED)
    def inward(features, points, wigner, frames):
        for e in range(len(points)):
            j = points[e]
            for k in range(orders):
                row = rows[k]
                turn = to_fixed_tuple(wigner[e, k + skipped], size)
                for c in range(channels):
                    total = turn[0] * features[j, first, c]
                    for n in range(1, size):
                        total += turn[n] * features[j, first + n, c]
                    frames[e, row, c] = total

    @numba.njit(**COMPILED)
    def outward(frames, points, wigner, features):
        for e in range(len(points)):
            i = points[e]
            for n in range(size):
                turn = to_fixed_tuple(wigner[e, skipped : skipped + orders, n], orders)
                for c in range(channels):
                    total = turn[0] * frames[e, rows[0], c]
                    for k in range(1, orders):
                        total += turn[k] * frames[e, rows[k], c]
                    features[i, first + n, c] += total

    return TurningKernels(inward, outward)


@lru_cache(maxsize=64)
@no_type_check
def scaling_kernels(max_degree: int, max_order: int, channels: int) -> ScalingKernels:
    """Kernels for all rows of features up to `max_degree`, without orders above `max_order`."""
    of_row = radial_of_row(max_degree, max_order)
    factor_of, rows, factors_count = np.array(of_row), len(of_row), max(of_row) + 1
    first_row = np.array([of_row.index(factor) for factor in range(factors_count)])
    # Rows +m and -m share a factor; where there is one row only, it is its own partner.
    last_row = np.array([rows - 1 - of_row[::-1].index(factor) for factor in range(factors_count)])

    @numba.njit(**COMPILED)
    def scale(frames, factors, scaled):
        for e in range(len(frames)):
            for row in range(rows):
                factor = factor_of[row]
                for c in range(channels):
                    scaled[e, row, c] = frames[e, row, c] * factors[e, factor, c]

    @numba.njit(**COMPILED)
    def scale_back(frames, factors, slopes, by_factors):
        for e in range(len(frames)):
            for factor in range(factors_count):
                row, other = first_row[factor], last_row[factor]
                if row == other:
                    for c in range(channels):
                        by_factors[e, factor, c] = slopes[e, row, c] * frames[e, row, c]
                else:
                    for c in range(channels):
                        by_factors[e, factor, c] = (
                            slopes[e, row, c] * frames[e, row, c]
                            + slopes[e, other, c] * frames[e, other, c]
                        )
            for row in range(rows):
                factor = factor_of[row]
                for c in range(channels):
                    slopes[e, row, c] *= factors[e, factor, c]

    @numba.njit(**COMPILED)
    def weigh_back(frames, strength, slopes, by_strength):
        for e in range(len(frames)):
            for c in range(channels):
                by_strength[e, c] = slopes[e, 0, c] * frames[e, 0, c]
            for row in range(1, rows):
                for c in range(channels):
                    by_strength[e, c] += slopes[e, row, c] * frames[e, row, c]
            for row in range(rows):
                for c in range(channels):
                    slopes[e, row, c] *= strength[e, c]

    return ScalingKernels(scale, scale_back, weigh_back)
