"""Vector neurons: layers whose channels are vectors of space that turn with the input.

Features are [..., 3, channels]: a linear map of the channels commutes with every rotation, and so
does a nonlinearity that looks at inner products only.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

SLOPE = 0.2
"""What is left of the part of a vector that points against its direction."""


class VectorLeaky(nn.Module):
    """A leaky rectifier of vectors.

    Each channel x has a learned direction d = W x. Of a vector with x . d < 0 the part along d is
    scaled by `SLOPE`; other vectors stay as they are.

    Args:
        channels: Of the vectors.
        inputs: Channels that directions are made of; those of the vectors if not given.
    """

    def __init__(self, channels: int, inputs: int | None = None) -> None:
        super().__init__()
        self.direction = nn.Linear(inputs or channels, channels, bias=False)

    def forward(
        self, x: Float[Tensor, "*n 3 channels"], source: Float[Tensor, "*n 3 inputs"] | None = None
    ) -> Float[Tensor, "*n 3 channels"]:
        """The vectors, rectified.

        Args:
            x: The vectors.
            source: What directions are made of; the vectors themselves if not given.
        """
        d = self.direction(x if source is None else source)
        return rectified(x, d)


def rectified(
    x: Float[Tensor, "*n 3 channels"], d: Float[Tensor, "*n 3 channels"]
) -> Float[Tensor, "*n 3 channels"]:
    """Vectors without most of their part against given directions.

    Args:
        x: The vectors.
        d: The directions, of any length.
    """
    return _Rectified.apply(x, d)


class _Rectified(torch.autograd.Function):
    """y = x - (1 - SLOPE) min(x . d, 0) / |d|^2 d; its way back keeps x and d only.

    PyTorch would keep each step's result, all as large as x or nearly so, for the way back.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Float[Tensor, "*n 3 channels"], d: Float[Tensor, "*n 3 channels"]
    ) -> Float[Tensor, "*n 3 channels"]:
        ctx.save_for_backward(x, d)
        along, length = _along(x, d)
        return torch.addcmul(x, (along / length).unsqueeze(-2), d, value=SLOPE - 1.0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        (g,), (x, d) = grads, ctx.saved_tensors
        along, length = _along(x, d)
        share = along / length
        # What the loss loses as the share rises, where the vector points against its direction.
        by = (SLOPE - 1.0) * dot(g, d) / length * (along < 0)
        by_d = torch.addcmul(by.unsqueeze(-2) * x, (2.0 * by * share).unsqueeze(-2), d, value=-1.0)
        by_d.addcmul_(share.unsqueeze(-2), g, value=SLOPE - 1.0)
        return torch.addcmul(g, by.unsqueeze(-2), d), by_d


def _along(
    x: Float[Tensor, "*n 3 channels"], d: Float[Tensor, "*n 3 channels"]
) -> tuple[Float[Tensor, "*n channels"], Float[Tensor, "*n channels"]]:
    """min(x . d, 0) and |d|^2, which is never zero."""
    return dot(x, d).clamp_max_(0.0), dot(d, d).add_(torch.finfo(d.dtype).eps)


def dot(
    x: Float[Tensor, "*n 3 channels"], y: Float[Tensor, "*n 3 channels"]
) -> Float[Tensor, "*n channels"]:
    """Inner products of vectors, channel by channel, without an array of their size."""
    (x0, x1, x2), (y0, y1, y2) = x.unbind(-2), y.unbind(-2)
    return (x0 * y0).addcmul_(x1, y1).addcmul_(x2, y2)


class VectorBlock(nn.Module):
    """A residual block of two rectifiers and two linear maps.

    Args:
        inputs: Channels that come in.
        outputs: Channels that go out, fewer than those that come in.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second = VectorLeaky(inputs), VectorLeaky(outputs)
        self.inner = nn.Linear(inputs, outputs, bias=False)
        self.outer = nn.Linear(outputs, outputs, bias=False)
        self.shortcut = nn.Linear(inputs, outputs, bias=False)
        nn.init.zeros_(self.outer.weight)

    def forward(self, x: Float[Tensor, "*n 3 inputs"]) -> Float[Tensor, "*n 3 outputs"]:
        """The block's output."""
        return self.shortcut(x) + self.outer(self.second(self.inner(self.first(x))))
