"""Muon (Jordan et al., 2024): momentum whose singular values are all made one.

A gradient of a matrix is often dominated by few directions, and Adam, which looks at entries one by
one, follows these. Muon takes the nearest matrix with orthonormal rows or columns instead, so that
every direction that the gradient has at all moves by the same amount. Parameters that are no
matrices, and matrices with hardly any rows or columns, are left to Adam.

The nearest such matrix comes from five Newton-Schulz iterations with a polynomial of degree five.
Its coefficients make small singular values grow fast, and leave all of them between 0.7 and 1.2
rather than at one, which does no harm. An update is scaled such that its root mean square is
about that of Adam's (Liu et al., 2025), so that one learning rate serves both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from handful.learning._adam import Adam

MOMENTUM = 0.9
SCALE = 0.2
"""Root mean square of an update of a square matrix, for a learning rate of one."""
SMALLEST = 4
"""Fewest rows and columns of a matrix that is one here."""
_ITERATIONS = 5
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon:
    """Lowers a loss along orthogonalised momenta; what is no matrix by Adam.

    The last two axes of a parameter are a matrix; axes before them count matrices. Matrices of one
    shape are worked on together.

    Args:
        parameters: What to change, in place. A parameter without a gradient has gradient zero.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        groups: dict[tuple[int, int], list[nn.Parameter]] = {}
        for parameter in self._parameters:
            if _is_matrix(parameter):
                rows, columns = parameter.shape[-2:]
                groups.setdefault((rows, columns), []).append(parameter)
        self._groups = list(groups.items())
        self._momenta = [
            torch.cat([torch.zeros_like(p).reshape(-1, *shape) for p in members])
            for shape, members in self._groups
        ]
        rest = [p for p in self._parameters if not _is_matrix(p)]
        self._rest = Adam(rest) if rest else None

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Change the parameters by their gradients, with a learning rate."""
        for (shape, members), momentum in zip(self._groups, self._momenta, strict=True):
            gradient = torch.cat(
                [
                    (torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1, *shape)
                    for p in members
                ]
            )
            momentum.lerp_(gradient, 1.0 - MOMENTUM)
            ahead = torch.lerp(momentum, gradient, 1.0 - MOMENTUM)  # Nesterov's
            change = orthogonalised(ahead) * (-rate * SCALE * math.sqrt(max(shape)))
            parts = change.split([p.numel() // math.prod(shape) for p in members])
            for parameter, part in zip(members, parts, strict=True):
                parameter.add_(part.reshape(parameter.shape))
        if self._rest is not None:
            self._rest.step(rate)

    def state(self) -> dict[str, Tensor]:
        """What a resumed run needs, as named tensors."""
        tensors = {f"momentum.{index}": value for index, value in enumerate(self._momenta)}
        rest = {} if self._rest is None else self._rest.state()
        return tensors | {f"adam.{name}": value for name, value in rest.items()}

    def resume(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a state; momenta that are not in it begin anew."""
        for index, value in enumerate(self._momenta):
            if f"momentum.{index}" in tensors:
                value.copy_(tensors[f"momentum.{index}"])
        if self._rest is None:
            return
        start = "adam."
        self._rest.resume({n[len(start) :]: v for n, v in tensors.items() if n.startswith(start)})


def orthogonalised(
    matrices: Float[Tensor, "matrices rows columns"],
) -> Float[Tensor, "matrices rows columns"]:
    """About U Vᵀ of each matrix U S Vᵀ; zero stays zero."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.square().sum((-2, -1), keepdim=True).sqrt() + 1e-7)
    first, second, third = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        square = x @ x.mT
        x = first * x + (second * square + third * square @ square) @ x
    return x.mT if tall else x


def _is_matrix(parameter: nn.Parameter) -> bool:
    return parameter.ndim >= 2 and min(parameter.shape[-2:]) >= SMALLEST
