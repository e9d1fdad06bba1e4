"""Adam (Kingma and Ba, 2015) with all parameters in one vector.

The update is that of `torch.optim.Adam`. The first optimiser of PyTorch in a process imports its
compiler, which takes 2.4 CPU-seconds in every training process; and a few operations on one vector
are faster than as many on each of a hundred parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

BETAS = (0.9, 0.999)
EPSILON = 1e-8
MAX_DONE = 10**9
"""Steps that a state may say were done; more than any training has."""


class Adam:
    """Lowers a loss along its gradients, each divided by the root of its mean square.

    Args:
        parameters: What to change, in place. A parameter without a gradient has gradient zero.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._sizes = [parameter.numel() for parameter in self._parameters]
        self._mean = torch.cat([torch.zeros_like(p).flatten() for p in self._parameters])
        self._square = torch.zeros_like(self._mean)
        self._done = 0

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Change the parameters by their gradients, with a learning rate."""
        self._done += 1
        gradient = torch.cat(
            [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten()
             for p in self._parameters]
        )  # fmt: skip
        self._mean.lerp_(gradient, 1.0 - BETAS[0])
        self._square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1.0 - BETAS[1])
        first, second = (1.0 - beta**self._done for beta in BETAS)
        change = self._mean / (self._square.sqrt() / math.sqrt(second) + EPSILON)
        parts = change.mul_(-rate / first).split(self._sizes)
        for parameter, part in zip(self._parameters, parts, strict=True):
            parameter.add_(part.view_as(parameter))

    def state(self) -> dict[str, Tensor]:
        """What a resumed run needs, as named tensors of each parameter."""
        tensors: dict[str, Tensor] = {}
        parts = zip(self._mean.split(self._sizes), self._square.split(self._sizes), strict=True)
        for index, (parameter, (mean, square)) in enumerate(
            zip(self._parameters, parts, strict=True)
        ):
            tensors[f"{index}.step"] = torch.tensor(float(self._done))
            tensors[f"{index}.exp_avg"] = mean.view_as(parameter)
            tensors[f"{index}.exp_avg_sq"] = square.view_as(parameter)
        return tensors

    def resume(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a state; parameters that are not in it begin anew.

        Raises:
            ValueError: The number of steps is none.
        """
        means, squares = self._mean.split(self._sizes), self._square.split(self._sizes)
        for index, (mean, square) in enumerate(zip(means, squares, strict=True)):
            if f"{index}.step" in tensors:
                done = float(tensors[f"{index}.step"])
                if not 0.0 <= done <= MAX_DONE:
                    raise ValueError(f"{done} steps are done: need a number from 0 to {MAX_DONE}")
                self._done = int(done)
                mean.copy_(tensors[f"{index}.exp_avg"].flatten())
                square.copy_(tensors[f"{index}.exp_avg_sq"].flatten())
