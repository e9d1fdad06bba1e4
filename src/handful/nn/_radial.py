"""Functions of the length of an edge: a smooth compact cut-off, and a learned radial network."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

KNOTS = 64
"""Intervals of tables of functions of the squared length: linear between knots is exact enough."""


def smooth_cutoff(length: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Falls from one at 0 to zero at 1 and stays there; twice continuously differentiable.

    1 - 10 x^3 + 15 x^4 - 6 x^5. Being flat at 0 too, it is as smooth as a function of the offset.
    """
    x = length.clamp(max=1.0)
    return 1.0 - x**3 * (10.0 - 15.0 * x + 6.0 * x**2)


def bernstein_basis(length: Float[Tensor, "edges"], count: int) -> Float[Tensor, "edges count"]:
    """Bernstein polynomials of the squared length, scaled to mean square about one.

    Polynomials of the squared length are smooth functions of the offset everywhere.

    Args:
        length: In [0, 1]; longer ones count as 1.
        count: How many polynomials.
    """
    square = length.square().clamp(max=1.0)
    rest = 1.0 - square
    ups, downs = [torch.ones_like(square)], [torch.ones_like(square)]
    for _ in range(count - 1):
        ups.append(ups[-1] * square)
        downs.append(downs[-1] * rest)
    scale = [math.comb(count - 1, k) * math.sqrt(count) for k in range(count)]
    columns = [up * down * s for up, down, s in zip(ups, reversed(downs), scale, strict=True)]
    return torch.stack(columns, dim=-1)


def knot_lengths(like: Tensor) -> Float[Tensor, "knots"]:
    """Lengths at which functions are tabulated: their squares are evenly spread over 0 to 1."""
    return torch.linspace(0.0, 1.0, KNOTS + 1, dtype=like.dtype, device=like.device).sqrt()


def between_knots(
    length: Float[Tensor, "edges"],
) -> tuple[Int[Tensor, "edges"], Float[Tensor, "edges"]]:
    """The knot below each length, and the part of the way to the next one, in squared lengths."""
    place = length.square() * KNOTS
    knot = place.detach().long().clamp(max=KNOTS - 1)
    return knot, (place - knot).clamp(max=1.0)


class RadialNetwork(nn.Module):
    """Maps the length of an edge to weights: Bernstein polynomials of its square, then an MLP.

    Args:
        basis: How many polynomials.
        hidden: Width of the hidden layer.
        outputs: How many weights.
    """

    def __init__(self, basis: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self._inner = nn.Linear(basis, hidden)
        self._outer = nn.Linear(hidden, outputs)

    def forward(self, length: Float[Tensor, "edges"]) -> Float[Tensor, "edges outputs"]:
        """Weights of each edge."""
        return self._outer(
            nn.functional.silu(self._inner(bernstein_basis(length, self._inner.in_features)))
        )

    def spread(
        self, length: Float[Tensor, "edges"], columns: Tensor
    ) -> Float[Tensor, "edges columns"]:
        """`forward(length)[:, columns]`, spreading the small weight matrix, not the result."""
        hidden = nn.functional.silu(self._inner(bernstein_basis(length, self._inner.in_features)))
        weight, bias = self._outer.weight, self._outer.bias
        return nn.functional.linear(hidden, weight[columns], bias[columns])
