"""The sums over neighbours of the SE(3)-transformer layer, compiled, with their derivatives.

For each point i and head: the sum over its edges of c_ij exp(logit_ij) times the message of the
edge, and the sum of c_ij exp(logit_ij) alone. Edges are worked on in parts that stay in the cache.

`TransformerLayer` computes the same with array operations where edges have derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from handful.nn._edge_kernels import scaling_kernels, turning_kernels
from handful.nn._frames import EdgeGeometry
from handful.nn._layout import component_count, order_sizes, rows_by_order

EDGES_AT_ONCE = 2048
"""Edges in one go: few enough that all arrays of them stay in the cache."""


@dataclass(frozen=True)
class AttentionShape:
    """The sizes of an attention.

    Attributes:
        in_degree: Highest degree of the features.
        out_degree: Highest degree of the messages.
        channels: Channels of features and messages.
        heads: Heads, which share out the channels.
        key_channels: Length of queries and keys, for each head.
        logit_limit: Largest absolute logit.
    """

    in_degree: int
    out_degree: int
    channels: int
    heads: int
    key_channels: int
    logit_limit: float

    @property
    def max_order(self) -> int:
        """Orders above it are not computed."""
        return min(self.in_degree, self.out_degree)


@dataclass(frozen=True)
class AttentionWeights:
    """The learned part of the messages.

    Attributes:
        radial: Weight and bias of the two layers of the radial network.
        polar: From rows m = 0 to rows m = 0 and keys.
        pairs: For each m > 0, from rows (+m, -m) to rows (+m, -m).
    """

    radial: tuple[Tensor, Tensor, Tensor, Tensor]
    polar: Float[Tensor, "inputs outputs"]
    pairs: tuple[Tensor, ...]


def attention_sums(
    shape: AttentionShape,
    edges: EdgeGeometry,
    features: Float[Tensor, "points in_components channels"],
    queries: Float[Tensor, "points keys"],
    weights: AttentionWeights,
) -> tuple[Float[Tensor, "points components channels"], Float[Tensor, "points heads"]]:
    """Sums of weighted messages, and of the weights, over the edges of each point."""
    return _AttentionSums.apply(
        shape, edges, features, queries, *weights.radial, weights.polar, *weights.pairs
    )


class _AttentionSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, shape: AttentionShape, edges: EdgeGeometry, *inputs: Tensor
    ) -> tuple[Tensor, Tensor]:
        features = inputs[0]
        ctx.save_for_backward(*inputs)
        components = component_count(shape.out_degree)
        sums = features.new_zeros(edges.targets, components, shape.channels)
        totals = features.new_zeros(edges.targets, shape.heads)
        ctx.parts = []
        for part in edges.parts(EDGES_AT_ONCE) if len(edges.target) else ():
            work = _Part(shape, part, inputs)
            totals.index_add_(0, part.target, work.strength)
            weighed = work.messages * work.by_channel[:, None]
            _turn_out(shape, weighed, part.target, part, shape.out_degree, sums)
            if any(ctx.needs_input_grad):
                ctx.parts.append(work)
        return sums, totals

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        by_sums, by_totals = (grad.contiguous() for grad in grads)
        slopes = [torch.zeros_like(tensor) for tensor in ctx.saved_tensors]
        for work in ctx.parts:
            work.add_slopes(by_sums, by_totals, slopes)
        return None, None, *slopes


class _Part:
    """Some edges: what they send, and how strongly.

    Attributes:
        messages: In the frames of the edges [edges, out_rows, channels].
        strength: c_ij exp(logit_ij) [edges, heads].
        by_channel: The strength of the head of each channel [edges, channels].
    """

    def __init__(
        self, shape: AttentionShape, part: EdgeGeometry, inputs: tuple[Tensor, ...]
    ) -> None:
        features, queries, *radial = inputs[:6]
        polar, *pairs = inputs[6:]
        self._shape, self._part, self._inputs = shape, part, inputs
        self._basis = part.radial_basis(radial[0].shape[1])
        self._inner = torch.addmm(radial[1], self._basis, radial[0].T)
        self._hidden = torch.nn.functional.silu(self._inner)
        count, channels = len(part.target), shape.channels
        self._factors = torch.addmm(radial[3], self._hidden, radial[2].T).view(count, -1, channels)
        rows = len(rows_by_order(shape.in_degree, shape.max_order))
        self._turned = features.new_empty(count, rows, channels)
        _turn_in(shape, features.contiguous(), part.source, part, shape.in_degree, self._turned)
        scaled = torch.empty_like(self._turned)
        self._kernels(shape.in_degree).scale(
            self._turned.numpy(), self._factors.numpy(), scaled.numpy()
        )
        self._scaled = scaled.flatten(1)
        self._in_sizes = [n * channels for n in order_sizes(shape.in_degree, shape.max_order)]
        self._out_sizes = [n * channels for n in order_sizes(shape.out_degree, shape.max_order)]
        zero, *orders = self._scaled.split(self._in_sizes, dim=1)
        self._keys = zero @ polar[:, self._out_sizes[0] :]
        messages = features.new_empty(count, sum(self._out_sizes))
        matrices = [polar[:, : self._out_sizes[0]], *pairs]
        for into, block, matrix in zip(
            messages.split(self._out_sizes, dim=1), [zero, *orders], matrices, strict=True
        ):
            torch.mm(block, matrix, out=into)
        self.messages = messages.view(count, -1, channels)
        self._queries = queries.index_select(0, part.target)
        width = shape.logit_limit * shape.key_channels**0.5
        product = (self._queries * self._keys).unflatten(1, (shape.heads, -1)).sum(-1)
        self._bent = torch.tanh(product / width)
        self.strength = (shape.logit_limit * self._bent).exp() * part.cutoff[:, None]
        self.by_channel = self.strength.repeat_interleave(channels // shape.heads, dim=1)

    def add_slopes(self, by_sums: Tensor, by_totals: Tensor, slopes: list[Tensor]) -> None:
        """Add a loss's derivatives by the inputs, given those by sums and totals."""
        shape, part = self._shape, self._part
        radial, (polar, *pairs) = self._inputs[2:6], self._inputs[6:]
        by_features, by_queries, *rest = slopes
        by_messages = torch.empty_like(self.messages)
        _turn_in(shape, by_sums, part.target, part, shape.out_degree, by_messages)
        by_channel = torch.empty_like(self.by_channel)
        self._kernels(shape.out_degree).weigh_back(
            self.messages.numpy(), self.by_channel.numpy(), by_messages.numpy(), by_channel.numpy()
        )
        by_strength = by_channel.unflatten(1, (shape.heads, -1)).sum(-1)
        by_strength += by_totals.index_select(0, part.target)
        by_product = by_strength * self.strength * (1.0 - self._bent.square())
        by_product = (by_product / shape.key_channels**0.5).repeat_interleave(
            shape.key_channels, dim=1
        )
        by_queries.index_add_(0, part.target, by_product * self._keys)
        zero, *orders = self._scaled.split(self._in_sizes, dim=1)
        by_zero, *by_orders = by_messages.flatten(1).split(self._out_sizes, dim=1)
        by_mixed = torch.cat([by_zero, by_product * self._queries], dim=1)
        by_scaled = torch.empty_like(self._scaled)
        for into, by_matrix, matrix, block, by_block in zip(
            by_scaled.split(self._in_sizes, dim=1),
            rest[4:],
            (polar, *pairs),
            (zero, *orders),
            (by_mixed, *by_orders),
            strict=True,
        ):
            by_matrix.addmm_(block.T, by_block)
            torch.mm(by_block, matrix.T, out=into)
        by_turned = by_scaled.view_as(self._turned)
        by_factors = torch.empty_like(self._factors)
        self._kernels(shape.in_degree).scale_back(
            self._turned.numpy(), self._factors.numpy(), by_turned.numpy(), by_factors.numpy()
        )
        _turn_out(shape, by_turned, part.source, part, shape.in_degree, by_features)
        flat = by_factors.flatten(1)
        rest[3].add_(flat.sum(0))
        rest[2].addmm_(flat.T, self._hidden)
        gate = torch.sigmoid(self._inner)
        by_inner = (flat @ radial[2]) * (gate * (1.0 + self._inner * (1.0 - gate)))
        rest[1].add_(by_inner.sum(0))
        rest[0].addmm_(by_inner.T, self._basis)

    def _kernels(self, degree: int) -> Any:
        return scaling_kernels(degree, self._shape.max_order, self._shape.channels)


def _turn_in(
    shape: AttentionShape,
    features: Tensor,
    points: Tensor,
    part: EdgeGeometry,
    max_degree: int,
    frames: Tensor,
) -> None:
    """Features of the edges' points, turned to the frames of the edges."""
    for degree, wigner in enumerate(part.wigner(max_degree)):
        kernels = turning_kernels(degree, max_degree, shape.max_order, shape.channels)
        kernels.inward(features.numpy(), points.numpy(), wigner.numpy(), frames.numpy())


def _turn_out(
    shape: AttentionShape,
    frames: Tensor,
    points: Tensor,
    part: EdgeGeometry,
    max_degree: int,
    features: Tensor,
) -> None:
    """Add what edges have in their frames, turned back, to features of points."""
    for degree, wigner in enumerate(part.wigner(max_degree)):
        kernels = turning_kernels(degree, max_degree, shape.max_order, shape.channels)
        kernels.outward(frames.numpy(), points.numpy(), wigner.numpy(), features.numpy())
