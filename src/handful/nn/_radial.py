"""Functions of the length of an edge: a smooth compact cut-off, and a learned radial network."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


def smooth_cutoff(length: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Falls from one at 0 to zero at 1 and stays there; twice continuously differentiable.

    1 - 10 x^3 + 15 x^4 - 6 x^5. Being flat at 0 too, it is as smooth as a function of the offset.
    """
    x = length.clamp(max=1.0)
    return 1.0 - x**3 * (10.0 - 15.0 * x + 6.0 * x**2)


def anisotropy(length: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Zero at 0 and close to one beyond: switches off what depends on an edge's direction.

    x^2 / (x^2 + 0.02), so that a kernel times it is differentiable where two points coincide.
    """
    square = length.square()
    return square / (square + 0.02)


class RadialNetwork(nn.Module):
    """Maps the length of an edge to weights: Bernstein polynomials of its square, then an MLP.

    Polynomials of the squared length are smooth functions of the offset everywhere.

    Args:
        basis: How many polynomials.
        hidden: Width of the hidden layer.
        outputs: How many weights.
    """

    def __init__(self, basis: int, hidden: int, outputs: int) -> None:
        super().__init__()
        degree = basis - 1
        binomials = [math.comb(degree, k) for k in range(basis)]
        self.register_buffer("_binomials", torch.tensor(binomials, dtype=torch.float64), False)
        self.register_buffer("_powers", torch.arange(basis, dtype=torch.float64), False)
        self._inner = nn.Linear(basis, hidden)
        self._outer = nn.Linear(hidden, outputs)

    def basis(self, length: Float[Tensor, "edges"]) -> Float[Tensor, "edges basis"]:
        """Bernstein polynomials of the squared length, scaled to mean square about one."""
        square = length.square().clamp(max=1.0)[:, None]
        powers = self._powers.to(square.dtype)
        ups = square**powers
        downs = (1.0 - square) ** powers.flip(0)
        count = len(powers)
        return self._binomials.to(square.dtype) * ups * downs * math.sqrt(count)

    def forward(self, length: Float[Tensor, "edges"]) -> Float[Tensor, "edges outputs"]:
        """Weights of each edge."""
        return self._outer(nn.functional.silu(self._inner(self.basis(length))))

    def spread(
        self, length: Float[Tensor, "edges"], columns: Tensor
    ) -> Float[Tensor, "edges columns"]:
        """`forward(length)[:, columns]`, spreading the small weight matrix, not the result."""
        hidden = nn.functional.silu(self._inner(self.basis(length)))
        weight, bias = self._outer.weight, self._outer.bias
        return nn.functional.linear(hidden, weight[columns], bias[columns])
