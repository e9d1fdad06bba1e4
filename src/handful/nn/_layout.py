"""The feature layout: [points, (L+1)^2, channels], and its reordering by order m.

Rows are grouped by degree l, and by order m = -l..l inside a degree (e3nn's basis: the polar axis
is y). In the frame of an edge, a map that respects rotations about the edge mixes rows of the same
|m| only, so there the rows are grouped by |m|: first m = 0 of every degree, then for m = 1, 2, ...
the rows +m of every degree l >= m followed by the rows -m.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


def component_count(max_degree: int) -> int:
    """(L+1)^2 rows for degrees up to L."""
    return (max_degree + 1) ** 2


def degree_sizes(max_degree: int) -> list[int]:
    """2l+1 rows for each degree."""
    return [2 * degree + 1 for degree in range(max_degree + 1)]


def order_sizes(max_degree: int, max_order: int) -> list[int]:
    """Rows for each |m| = 0..max_order when degrees go up to L."""
    degrees = max_degree + 1
    return [degrees, *(2 * (degrees - order) for order in range(1, max_order + 1))]


def rows_by_order(max_degree: int, max_order: int) -> list[int]:
    """Row numbers (by degree) in the order of the edge frame; orders above max_order left out."""
    rows = [_row(degree, 0) for degree in range(max_degree + 1)]
    for order in range(1, max_order + 1):
        for sign in (order, -order):
            rows += [_row(degree, sign) for degree in range(order, max_degree + 1)]
    return rows


def radial_of_row(max_degree: int, max_order: int) -> list[int]:
    """Which radial factor scales each row of the edge frame; +m and -m share theirs."""
    factors: list[int] = []
    first = 0
    for order in range(max_order + 1):
        count = max_degree + 1 - order
        block = list(range(first, first + count))
        factors += block if order == 0 else block * 2
        first += count
    return factors


@lru_cache(maxsize=64)
def block_scatter(
    max_degree: int, max_order: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """The 0/1 matrix that spreads flat Wigner blocks into one dense matrix, rows by order.

    Returns:
        [sum_l (2l+1)^2, rows * (L+1)^2].
    """
    row_place = {row: place for place, row in enumerate(rows_by_order(max_degree, max_order))}
    components = component_count(max_degree)
    entries = sum(size * size for size in degree_sizes(max_degree))
    scatter = torch.zeros(entries, len(row_place) * components, dtype=torch.float64)
    entry = 0
    for degree in range(max_degree + 1):
        for order in range(-degree, degree + 1):
            for other in range(-degree, degree + 1):
                place = row_place.get(_row(degree, order))
                if place is not None:
                    scatter[entry, place * components + _row(degree, other)] = 1.0
                entry += 1
    with torch.inference_mode(False):
        return scatter.to(device=device, dtype=dtype)


def _row(degree: int, order: int) -> int:
    return degree * degree + degree + order
