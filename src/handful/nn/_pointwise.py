"""Layers that act on each point by itself: linear, norm, gate."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from handful.nn._layout import component_count, degree_sizes


class EquivariantLinear(nn.Module):
    """Mixes channels of the same degree (Schur's lemma allows no more); type 0 has a bias.

    Args:
        max_degree: Highest degree L of input and output.
        inputs: Channels of the input.
        outputs: Channels of the output.
        bias: Whether type 0 has a bias.
    """

    def __init__(self, max_degree: int, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self._sizes = degree_sizes(max_degree)
        weight = torch.randn(max_degree + 1, inputs, outputs) / inputs**0.5
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(
        self, features: Float[Tensor, "points components inputs"]
    ) -> Float[Tensor, "points components outputs"]:
        """Features with mixed channels."""
        blocks = features.split(self._sizes, dim=1)
        mixed = [block @ weight for block, weight in zip(blocks, self.weight, strict=True)]
        if self.bias is not None:
            mixed[0] = mixed[0] + self.bias
        return torch.cat(mixed, dim=1)


class EquivariantNorm(nn.Module):
    """Divides each degree by its root mean square over orders and channels, then scales channels.

    Smooth at zero: a feature much smaller than `floor` keeps its relative size.

    Args:
        max_degree: Highest degree L.
        channels: Channels.
        floor: Below this root mean square a degree is no longer blown up.
    """

    def __init__(self, max_degree: int, channels: int, floor: float = 0.1) -> None:
        super().__init__()
        self._sizes = degree_sizes(max_degree)
        self._floor = floor
        self.scale = nn.Parameter(torch.ones(max_degree + 1, channels))

    def forward(
        self, features: Float[Tensor, "points components channels"]
    ) -> Float[Tensor, "points components channels"]:
        """Normalised features."""
        normed = []
        for block, scale in zip(features.split(self._sizes, dim=1), self.scale, strict=True):
            square = block.square().mean(dim=(1, 2), keepdim=True)
            normed.append(block * ((square + self._floor**2).rsqrt() * scale))
        return torch.cat(normed, dim=1)


class Gate(nn.Module):
    """The non-linearity: SiLU on type 0, and a sigmoid of type 0 times every other degree.

    With `sizes`, what goes into both is type 0 plus a linear map of p / (1 + p), where p is the
    mean square over orders of each channel of each other degree. A point then knows how large its
    vectors are, and not only what came to it as type 0.

    Args:
        max_degree: Highest degree L.
        channels: Channels.
        sizes: Whether the sizes of other degrees have a say.
    """

    def __init__(self, max_degree: int, channels: int, sizes: bool = False) -> None:
        super().__init__()
        self._max_degree = max_degree
        self._channels = channels
        self._gates = nn.Linear(channels, max_degree * channels) if max_degree else None
        self._sizes: nn.Linear | None = None
        if sizes and max_degree:
            width = max_degree * channels
            self._sizes = nn.Linear(width, channels + width, bias=False)
        repeats = torch.tensor(degree_sizes(max_degree)[1:], dtype=torch.int64)
        self._repeats: Tensor
        self.register_buffer("_repeats", repeats, persistent=False)

    def forward(
        self, features: Float[Tensor, "points components channels"]
    ) -> Float[Tensor, "points components channels"]:
        """Gated features."""
        rest = component_count(self._max_degree) - 1
        scalars, vectors = features.split([1, rest], dim=1)
        if self._gates is None:
            return nn.functional.silu(scalars)
        gates = self._gates(scalars.squeeze(1))
        if self._sizes is not None:
            to_scalars, to_gates = self._from_sizes(vectors, self._sizes)
            scalars, gates = scalars + to_scalars[:, None], gates + to_gates
        gates = torch.sigmoid(gates).view(-1, self._max_degree, self._channels)
        gates = gates.repeat_interleave(self._repeats, dim=1, output_size=rest)
        return torch.cat([nn.functional.silu(scalars), vectors * gates], dim=1)

    def _from_sizes(
        self, vectors: Float[Tensor, "points orders channels"], weights: nn.Linear
    ) -> tuple[Float[Tensor, "points channels"], Float[Tensor, "points gates"]]:
        """What the sizes of vectors add to the scalars and to the logits of the gates."""
        blocks = vectors.split(degree_sizes(self._max_degree)[1:], dim=1)
        squares = torch.cat([block.square().mean(1) for block in blocks], dim=1)
        to_scalars, to_gates = weights(squares / (1.0 + squares)).split(
            [self._channels, self._max_degree * self._channels], dim=1
        )
        return to_scalars, to_gates
