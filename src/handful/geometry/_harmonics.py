"""Real spherical harmonics in e3nn's basis: y is the polar axis and degree 1 is (x, y, z)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from handful.errors import GeometryError

Normalization = Literal["component", "norm"]


def spherical_harmonics(
    vectors: Float[Tensor, "*batch 3"],
    max_degree: int,
    *,
    normalize: bool = True,
    normalization: Normalization = "component",
) -> Float[Tensor, "*batch components"]:
    """Real spherical harmonics Y_0..Y_L, one block of 2l+1 numbers per degree.

    They obey Y_l(R x) = D_l(R) Y_l(x) with `wigner_d`. Gradients are finite everywhere; at the
    zero vector Y_0 keeps its value and all other degrees are zero.

    Args:
        vectors: [..., 3], any unit of length.
        max_degree: L >= 0.
        normalize: True evaluates on the unit sphere. False gives the solid harmonics
            |x|^l Y_l(x / |x|), which are polynomials.
        normalization: On the unit sphere, ``"component"`` gives |Y_l|² = 2l+1 (each component has
            mean square 1) and ``"norm"`` gives |Y_l| = 1. They differ by sqrt(2l+1).

    Returns:
        [..., (L+1)²], blocks in order of degree, orders -l..l inside a block.
    """
    if max_degree < 0:
        raise GeometryError(f"max_degree is {max_degree}: need 0 or more.")
    if normalization not in ("component", "norm"):
        raise GeometryError(f"normalization is {normalization!r}: need 'component' or 'norm'.")
    coordinates = vectors.movedim(-1, 0).contiguous()  # long contiguous rows run faster
    if normalize:
        coordinates = _normalized(coordinates)
    x, y, z = coordinates.unbind(0)
    rows = solid_harmonics(x, y, z, max_degree, x * x + y * y + z * z)
    values = torch.stack([component for row in rows for component in row], dim=-1)
    if normalization == "norm":
        values = values / values.new_tensor([math.sqrt(len(row)) for row in rows for _ in row])
    return values


def solid_harmonics(
    x: Float[Tensor, "*shape"],
    y: Float[Tensor, "*shape"],
    z: Float[Tensor, "*shape"],
    max_degree: int,
    square: Float[Tensor, "*shape"] | None,
) -> list[list[Tensor]]:
    """Solid harmonics with the ``"component"`` normalisation, one tensor per component.

    With (z + i x)^m = C_m + i S_m, component m of degree l is P_l^m(y) times C_m (m > 0), S_|m|
    (m < 0) or 1 (m = 0). P is the normalised associated Legendre function over sin^m, from

        sqrt((l² - m²)/(2l + 1)) P_l^m = sqrt(2l - 1) y P_{l-1}^m
                                         - sqrt(((l-1)² - m²)/(2l - 3)) |x|² P_{l-2}^m,

    which is stable upwards in l. One tensor per component, rather than slices of a large one,
    spares the zero-fill of slices on the way back.

    Args:
        x: First coordinates, any shape.
        y: Second coordinates (polar axis).
        z: Third coordinates.
        max_degree: L >= 0.
        square: |x|², or None when every vector is known to have length one.

    Returns:
        For each degree l the 2l+1 components in order -l..l.
    """
    cosines, sines = [torch.ones_like(x), z], [torch.zeros_like(x), x]
    for _ in range(2, max_degree + 1):
        cosine, sine = cosines[-1], sines[-1]
        cosines.append(cosine * z - sine * x)
        sines.append(sine * z + cosine * x)
    rows: list[list[Tensor]] = [[cosines[0]]]
    # A Legendre factor is a plain number while it does not depend on y (l = m).
    older: list[Tensor | float] = []
    old: list[Tensor | float] = [1.0]
    for degree in range(1, max_degree + 1):
        new: list[Tensor | float] = []
        for order in range(degree):
            width = math.sqrt((degree * degree - order * order) / (2 * degree + 1))
            value = y * (old[order] * (math.sqrt(2 * degree - 1) / width))
            if order < degree - 1:
                gap = (degree - 1) ** 2 - order * order
                back = math.sqrt(gap / (2 * degree - 3)) / width
                value = value - older[order] * back * (1.0 if square is None else square)
            new.append(value)
        sectoral = math.sqrt(3.0 if degree == 1 else (2 * degree + 1) / (2 * degree))
        new.append(old[degree - 1] * sectoral)
        row = [sines[order] * new[order] for order in range(degree, 0, -1)]
        row.append(cosines[0] * new[0])
        row.extend(cosines[order] * new[order] for order in range(1, degree + 1))
        rows.append(row)
        older, old = old, new
    return rows


def _normalized(vectors: Float[Tensor, "3 *batch"]) -> Float[Tensor, "3 *batch"]:
    # Scaling by the largest entry first keeps the squares of tiny and huge vectors in range.
    largest = vectors.detach().abs().amax(0)
    nonzero = largest > 0
    scaled = vectors / torch.where(nonzero, largest, torch.ones_like(largest))
    square = scaled.square().sum(0)
    return scaled / torch.where(nonzero, square, torch.ones_like(square)).sqrt()
