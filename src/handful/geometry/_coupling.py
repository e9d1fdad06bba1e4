"""Coupling coefficients: how two vectors of types l1 and l2 make one of type l3."""

from __future__ import annotations

from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from handful.errors import GeometryError

from ._lattice import rotation_lattice
from ._wigner import wigner_d


@lru_cache(maxsize=256)
def coupling_coefficients(first: int, second: int, third: int) -> Float[Tensor, "m1 m2 m3"]:
    """The Wigner 3j symbol in the real basis: the one invariant of three types, of norm one.

    C is found from what it does, C[D u, D v, D w] = C[u, v, w] for every rotation: the average of
    D_l1 (x) D_l2 (x) D_l3 over rotations projects onto it. Up to its sign, which is chosen so that
    the first entry of largest size is positive, it is e3nn's `wigner_3j`, without the seconds that
    importing e3nn takes.

    Args:
        first: Degree l1 >= 0.
        second: Degree l2 >= 0.
        third: Degree l3 with |l1 - l2| <= l3 <= l1 + l2.

    Returns:
        [2 l1 + 1, 2 l2 + 1, 2 l3 + 1], float64. Shared: do not change it in place.
    """
    if min(first, second, third) < 0 or not abs(first - second) <= third <= first + second:
        raise GeometryError(f"types {first}, {second} and {third} do not couple.")
    with torch.inference_mode(False), torch.no_grad():
        turns = rotation_lattice(8, dtype=torch.float64)
        blocks = [wigner_d(turns, degree) for degree in (first, second, third)]
        turned = torch.einsum("nai,nbj,nck->nabcijk", *blocks)
        size = turned[0, :, :, :, 0, 0, 0].numel()
        average = turned.reshape(len(turns), size, size).mean(0)
        # The invariant is the one vector that averaging leaves as long as it was.
        invariant = torch.linalg.eigh((average + average.T) / 2.0).eigenvectors[:, -1]
        largest = invariant.abs().max()
        sign = invariant[(invariant.abs() > 0.999 * largest).nonzero()[0, 0]].sign()
        return (invariant * sign).reshape(2 * first + 1, 2 * second + 1, 2 * third + 1)
