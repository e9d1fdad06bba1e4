"""Layers that act on each point by itself: linear, norm, gate.

What is more than a matrix product is compiled on the CPU (`_pointwise_kernels`), with its first
derivatives. Derivatives of derivatives come from array operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from handful.nn import _pointwise_kernels as kernels
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
        self._rows = component_count(max_degree)
        self._repeats: Tensor
        self.register_buffer("_repeats", torch.tensor(degree_sizes(max_degree)), persistent=False)
        weight = torch.randn(max_degree + 1, inputs, outputs) / inputs**0.5
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(
        self, features: Float[Tensor, "points components inputs"]
    ) -> Float[Tensor, "points components outputs"]:
        """Features with mixed channels."""
        # One matrix for each row: a product for all of them, without taking blocks apart.
        rows = torch.repeat_interleave(self.weight, self._repeats, dim=0, output_size=self._rows)
        mixed = torch.bmm(features.transpose(0, 1), rows).transpose(0, 1)
        if self.bias is None:
            return mixed
        return mixed + nn.functional.pad(self.bias[None], (0, 0, 0, self._rows - 1))


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
        if features.device.type == "cpu":
            return _Normalised.apply(self._slowly, self._floor, features, self.scale)
        return self._slowly(features, self.scale)

    def _slowly(
        self,
        features: Float[Tensor, "points components channels"],
        scales: Float[Tensor, "degrees channels"],
    ) -> Float[Tensor, "points components channels"]:
        normed = []
        for block, scale in zip(features.split(self._sizes, dim=1), scales, strict=True):
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
        if self._gates is None:
            return nn.functional.silu(features)
        features = features.contiguous()
        if self._sizes is None:
            scalars = features[:, 0]
            gates = self._gates(scalars)
        else:
            scalars, squares = self._invariants(features)
            more = self._sizes((squares / (1.0 + squares)).flatten(1))
            gates = self._gates(scalars) + more[:, self._channels :]
            scalars = scalars + more[:, : self._channels]
        gates = torch.sigmoid(gates).unflatten(1, (self._max_degree, self._channels))
        scalars = nn.functional.silu(scalars)
        if features.device.type == "cpu":
            return _Gated.apply(self._gated, features, scalars, gates)
        return self._gated(features, scalars, gates)

    def _invariants(
        self, features: Float[Tensor, "points components channels"]
    ) -> tuple[Float[Tensor, "points channels"], Float[Tensor, "points degrees channels"]]:
        """Type 0, and of each degree from 1 on the mean square over orders."""
        if features.device.type == "cpu":
            return _Invariants.apply(self._invariants_slowly, self._max_degree, features)
        return self._invariants_slowly(features)

    def _invariants_slowly(
        self, features: Float[Tensor, "points components channels"]
    ) -> tuple[Float[Tensor, "points channels"], Float[Tensor, "points degrees channels"]]:
        first, *blocks = features.split(degree_sizes(self._max_degree), dim=1)
        squares = torch.stack([block.square().mean(1) for block in blocks], dim=1)
        return first.squeeze(1), squares

    def _gated(
        self,
        features: Float[Tensor, "points components channels"],
        scalars: Float[Tensor, "points channels"],
        gates: Float[Tensor, "points degrees channels"],
    ) -> Float[Tensor, "points components channels"]:
        rest = component_count(self._max_degree) - 1
        gates = gates.repeat_interleave(self._repeats, dim=1, output_size=rest)
        return torch.cat([scalars[:, None], features[:, 1:] * gates], dim=1)


# --- compiled ----------------------------------------------------------------------------------


class _Normalised(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, slow: Callable[..., Tensor], floor: float, features: Tensor, scale: Tensor
    ) -> Tensor:
        features = features.contiguous()
        sizes, out = features.new_empty(len(features), len(scale)), torch.empty_like(features)
        number = features.numpy().dtype.type(floor)
        kernels.normalise(features.numpy(), scale.numpy(), number, sizes.numpy(), out.numpy())
        ctx.slow = slow
        ctx.save_for_backward(features, scale, sizes)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        features, scale, sizes = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody will differentiate these derivatives
            return None, None, *_slopes(ctx.slow, grads, features, scale)
        by_features, by_scale = torch.empty_like(features), torch.zeros_like(scale)
        arrays = (features, scale, sizes, grads[0].contiguous(), by_features, by_scale)
        kernels.normalise_back(*(tensor.numpy() for tensor in arrays))
        return None, None, by_features, by_scale


class _Invariants(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, slow: Callable[..., Any], degrees: int, features: Tensor
    ) -> tuple[Tensor, Tensor]:
        features = features.contiguous()
        count, _, channels = features.shape
        scalars = features.new_empty(count, channels)
        squares = features.new_empty(count, degrees, channels)
        kernels.invariants(features.numpy(), scalars.numpy(), squares.numpy())
        ctx.slow = slow
        ctx.save_for_backward(features)
        return scalars, squares

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        (features,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody will differentiate these derivatives
            return None, None, *_slopes(ctx.slow, grads, features)
        by_features = torch.empty_like(features)
        arrays = (features, *(grad.contiguous() for grad in grads), by_features)
        kernels.invariants_back(*(tensor.numpy() for tensor in arrays))
        return None, None, by_features


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, slow: Callable[..., Tensor], features: Tensor, scalars: Tensor, gates: Tensor
    ) -> Tensor:
        features, gates = features.contiguous(), gates.contiguous()
        out = torch.empty_like(features)
        arrays = (features, scalars.contiguous(), gates, out)
        kernels.gate(*(tensor.numpy() for tensor in arrays))
        ctx.slow = slow
        ctx.save_for_backward(features, scalars, gates)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        features, scalars, gates = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, *_slopes(ctx.slow, grads, features, scalars, gates)
        slopes = (
            torch.empty_like(features),
            features.new_empty(scalars.shape),
            torch.empty_like(gates),
        )
        arrays = (features, gates, grads[0].contiguous(), *slopes)
        kernels.gate_back(*(tensor.numpy() for tensor in arrays))
        return None, *slopes


def _slopes(
    slow: Callable[..., Any], grads: tuple[Tensor, ...], *inputs: Tensor
) -> list[Tensor | None]:
    """Derivatives by array operations, which can be differentiated again."""
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    values = slow(*inputs)
    found = iter(torch.autograd.grad(values, wanted, grads, create_graph=True))
    return [next(found) if tensor.requires_grad else None for tensor in inputs]
