"""Vector neurons: layers whose channels are vectors of space that turn with the input.

Features are [..., 3, channels]: a linear map of the channels commutes with every rotation, and so
does a nonlinearity that looks at inner products only.
"""

from __future__ import annotations

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
        along = (x * d).sum(-2, keepdim=True).clamp_max(0.0)
        length = d.square().sum(-2, keepdim=True) + torch.finfo(x.dtype).eps
        return x - (1.0 - SLOPE) * (along / length) * d


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
