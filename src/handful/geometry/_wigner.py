"""Real Wigner matrices straight from rotation matrices, without Euler angles.

D_l is found from what it does: D_l(R) Y_l(p) = Y_l(R p). With a few fixed probe points p_1..p_n in
the columns of A_l = [Y_l(p_1) .. Y_l(p_n)], D_l(R) = [Y_l(R p_1) .. Y_l(R p_n)] A_l⁺. That is a
polynomial in R, so gradients are exact and nothing is singular; the cost is O(l³) a rotation
against O(l⁵) for coupling D_{l-1} with R by Clebsch-Gordan coefficients (five times slower when
measured at l <= 3). n = 2L + 2 probes, chosen well conditioned, serve all degrees up to L.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from handful.errors import GeometryError

from ._harmonics import solid_harmonics


def wigner_d(
    rotation: Float[Tensor, "*batch 3 3"], degree: int
) -> Float[Tensor, "*batch order order"]:
    """Real Wigner matrix D_l(R) in e3nn's basis, where D_1(R) = R.

    Args:
        rotation: Rotation matrices [..., 3, 3]. They must be orthonormal to rounding.
        degree: l >= 0. Tested to l = 8.

    Returns:
        [..., 2l+1, 2l+1], orthogonal, with D(R1 R2) = D(R1) D(R2).
    """
    return _blocks(rotation, degree, [degree])[0]


def wigner_d_blocks(rotation: Float[Tensor, "*batch 3 3"], max_degree: int) -> list[Tensor]:
    """D_0(R), D_1(R), ..., D_L(R), sharing the work between degrees.

    Args:
        rotation: Rotation matrices [..., 3, 3]. They must be orthonormal to rounding.
        max_degree: L >= 0. Tested to L = 8.

    Returns:
        L + 1 tensors; entry l is [..., 2l+1, 2l+1] (see `wigner_d`). Entry 1 is `rotation` itself.
    """
    return _blocks(rotation, max_degree, list(range(max_degree + 1)))


def rotate_features(
    features: Float[Tensor, "*#batch components channels"], rotation: Float[Tensor, "*#batch 3 3"]
) -> Float[Tensor, "... components channels"]:
    """Features of a rotated cloud: block l is multiplied by D_l(R).

    Args:
        features: The project's layout [..., (L+1)², channels], one block of 2l+1 rows per degree.
        rotation: Rotation matrices [..., 3, 3]; batches broadcast.
    """
    components = features.shape[-2]
    max_degree = math.isqrt(components) - 1
    if max_degree < 0 or (max_degree + 1) ** 2 != components:
        raise GeometryError(
            f"features have {components} components: need (L+1)², that is 1, 4, 9, 16, ..."
        )
    parts = torch.split(features, [2 * degree + 1 for degree in range(max_degree + 1)], dim=-2)
    blocks = wigner_d_blocks(rotation, max_degree)
    return torch.cat([block @ part for block, part in zip(blocks, parts, strict=True)], dim=-2)


class _Probes(NamedTuple):
    """Unit vectors [3, n] and, for every degree, the pseudo-inverse A_l⁺ [n, 2l+1]."""

    points: Tensor
    inverses: list[Tensor]


def _blocks(rotation: Tensor, max_degree: int, degrees: list[int]) -> list[Tensor]:
    if max_degree < 0:
        raise GeometryError(f"degree is {max_degree}: need 0 or more.")
    batch = rotation.shape[:-2]
    rows: list[list[Tensor]] = []
    if max_degree > 1:
        probes = _probes_as(max_degree, rotation.dtype, rotation.device)
        # Coordinates first: three contiguous [rotations, n] arrays.
        x, y, z = (rotation.reshape(-1, 3, 3).transpose(0, 1) @ probes.points).unbind(0)
        rows = solid_harmonics(x, y, z, max_degree, None)
    blocks: list[Tensor] = []
    for degree in degrees:
        if degree == 0:
            blocks.append(rotation.new_ones(*batch, 1, 1))
        elif degree == 1:
            blocks.append(rotation)
        else:
            values = torch.stack(rows[degree], dim=1)
            block = values.flatten(0, 1) @ probes.inverses[degree]
            blocks.append(block.reshape(*batch, 2 * degree + 1, 2 * degree + 1))
    return blocks


@lru_cache(maxsize=64)
def _probes_as(max_degree: int, dtype: torch.dtype, device: torch.device) -> _Probes:
    points, inverses = _probes(max_degree)
    # Outside of inference mode, so that the cached constants can serve autograd later.
    with torch.inference_mode(False):
        return _Probes(
            points.to(device=device, dtype=dtype),
            [inverse.to(device=device, dtype=dtype) for inverse in inverses],
        )


@lru_cache(maxsize=32)
def _probes(max_degree: int) -> _Probes:
    """The best conditioned of 512 spirals over the upper half sphere, in float64.

    Half a sphere, because Y_l(-p) = ±Y_l(p) adds nothing. Spirals differ by their turn per point.
    The condition of a spiral is the largest |Y_l| |A_l⁺| over the degrees, which bounds how much
    rounding in Y is magnified (about 2 for L = 3 and 5 for L = 8).
    """
    count, spirals = 2 * max_degree + 2, 512
    with torch.inference_mode(False), torch.no_grad():
        index = torch.arange(count, dtype=torch.float64) + 0.5
        turns = torch.linspace(0.0, 0.5, spirals, dtype=torch.float64)
        height = (1.0 - index / count).expand(spirals, count)
        radius = (1.0 - height.square()).sqrt()
        azimuth = 2.0 * math.pi * turns[:, None] * index
        x, y, z = radius * azimuth.sin(), height, radius * azimuth.cos()
        matrices = [torch.stack(row, dim=-2) for row in solid_harmonics(x, y, z, max_degree, None)]
        smallest = torch.stack(
            [torch.linalg.svdvals(m)[:, -1] / math.sqrt(m.shape[-2]) for m in matrices]
        )
        best = int(smallest.amin(0).argmax())
        points = torch.stack([x[best], y[best], z[best]])
        return _Probes(points, [torch.linalg.pinv(matrix[best]) for matrix in matrices])
