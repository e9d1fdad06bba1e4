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

    Args:
        max_degree: Highest degree L.
        channels: Channels.
    """

    def __init__(self, max_degree: int, channels: int) -> None:
        super().__init__()
        self._max_degree = max_degree
        self._channels = channels
        self._gates = nn.Linear(channels, max_degree * channels) if max_degree else None
        repeats = torch.tensor(degree_sizes(max_degree)[1:], dtype=torch.int64)
        self._repeats: Tensor
        self.register_buffer("_repeats", repeats, persistent=False)

    def forward(
        self, features: Float[Tensor, "points components channels"]
    ) -> Float[Tensor, "points components channels"]:
        """Gated features."""
        rest = component_count(self._max_degree) - 1
        scalars, vectors = features.split([1, rest], dim=1)
        activated = nn.functional.silu(scalars)
        if self._gates is None:
            return activated
        gates = torch.sigmoid(self._gates(scalars.squeeze(1)))
        gates = gates.view(-1, self._max_degree, self._channels)
        gates = gates.repeat_interleave(self._repeats, dim=1, output_size=rest)
        return torch.cat([activated, vectors * gates], dim=1)
