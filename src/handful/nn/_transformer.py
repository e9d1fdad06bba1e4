"""The SE(3)-transformer layer (appendix on equivariant graph neural networks).

The paper takes its attention from Fuchs et al. (2020): a softmax over the neighbours of products of
queries and keys of all types. Ours differs in four ways. Queries and keys are of type 0. Logits are
limited to `LOGIT_LIMIT` by a hyperbolic tangent. Every neighbour has the smooth cut-off as a
factor. The denominator holds a one besides the sum over neighbours. The last two make the output a
smooth function of the points: a softmax over one neighbour is one, however far that neighbour is.
The norm and the gated point-wise block are not in the paper either.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from handful.errors import OptionError
from handful.nn._convolution import EdgeConvolution
from handful.nn._depthwise import DepthwiseConvolution
from handful.nn._frames import EdgeGeometry
from handful.nn._layout import component_count
from handful.nn._pointwise import EquivariantLinear, EquivariantNorm, Gate
from handful.nn._radial import smooth_cutoff

EDGES_AT_ONCE = 4096
"""Edges whose messages are computed in one go: few enough that they stay in the cache."""
LOGIT_LIMIT = 6.0
"""Largest absolute logit: two neighbours at equal distance differ by a factor of e^12 at most.

Without it the exponential of a product of two learned vectors overflows in float32 from 89 on.
"""


class TransformerLayer(nn.Module):
    """Attention over neighbours with type-0 logits, self-interaction, and a gated point-wise block.

    f_i <- S f_i + sum_j alpha_ij W(x_i - x_j) f_j, then f_i <- f_i + B gate(A f_i). The weights
    alpha_ij = c_ij exp(q_i . k_ij) / (1 + sum_j c_ij exp(q_i . k_ij)) carry the smooth cut-off c,
    so a neighbour fades in and out, and the one in the denominator keeps a point with hardly any
    neighbour from listening to it alone.

    Args:
        in_degree: Highest degree of the input.
        degree: Highest degree of the output.
        channels: Channels of input and output.
        heads: Heads of the attention; they share out the channels.
        key_channels: Length of queries and keys, for each head.
        gate_sizes: Whether the sizes of vectors have a say in the gate.
    """

    def __init__(
        self,
        in_degree: int,
        degree: int,
        channels: int,
        heads: int = 4,
        key_channels: int = 4,
        gate_sizes: bool = False,
    ) -> None:
        super().__init__()
        if channels % heads:
            raise OptionError(f"{channels} channels cannot be shared out to {heads} heads.")
        self.degree, self._in_degree = degree, in_degree
        self._heads, self._key_channels, self._channels = heads, key_channels, channels
        self._norm = EquivariantNorm(in_degree, channels)
        self._queries = nn.Linear(channels, heads * key_channels)
        self._convolution: Any = self._make_convolution()
        self._output = EquivariantLinear(degree, channels, channels)
        self._self_interaction = EquivariantLinear(in_degree, channels, channels)
        self._inner_norm = EquivariantNorm(degree, channels)
        self._inner = EquivariantLinear(degree, channels, 2 * channels)
        self._gate = Gate(degree, 2 * channels, gate_sizes)
        self._outer = EquivariantLinear(degree, 2 * channels, channels)

    def _make_convolution(self) -> nn.Module:
        keys = self._heads * self._key_channels
        return EdgeConvolution(
            self._in_degree, self.degree, self._channels, self._channels, scalars=keys
        )

    def forward(
        self, features: Float[Tensor, "points in_components channels"], edges: EdgeGeometry
    ) -> Float[Tensor, "points components channels"]:
        """Features of the next layer."""
        normed = self._norm(features)
        attended = self._output(self._attend(normed, edges))
        mixed = attended + _padded(self._self_interaction(normed), self.degree)
        features = _padded(features, self.degree) + mixed
        inner = self._gate(self._inner(self._inner_norm(features)))
        return features + self._outer(inner)

    def _attend(
        self, features: Float[Tensor, "points in_components channels"], edges: EdgeGeometry
    ) -> Float[Tensor, "points components channels"]:
        queries = self._queries(features[:, 0])
        parts = edges.parts(EDGES_AT_ONCE)
        sent = ((part, *self._messages(features, part)) for part in parts)
        weighed = (
            (part, messages, self._strength(queries, keys, part)) for part, messages, keys in sent
        )
        return self._weighted_mean(weighed, edges.targets, component_count(self.degree))

    def _weighted_mean(
        self,
        parts: Iterable[tuple[EdgeGeometry, Tensor, Tensor]],
        targets: int,
        components: int,
    ) -> Float[Tensor, "targets components channels"]:
        """The sum of alpha_ij times the messages; the denominator is applied to the sum.

        Args:
            parts: Edges, their messages [edges, components, channels] and the strength of each
                [edges, heads].
            targets: How many points receive.
            components: Of each message.
        """
        like = self._queries.weight
        summed = like.new_zeros(targets, components, self._channels)
        total = like.new_ones(targets, self._heads)
        for edges, messages, strength in parts:
            total = total.index_add(0, edges.target, strength)
            summed = summed.index_add(0, edges.target, messages * self._by_channel(strength))
        return summed / self._by_channel(total)

    def _messages(
        self, features: Float[Tensor, "points in_components channels"], edges: EdgeGeometry
    ) -> tuple[Float[Tensor, "edges components channels"], Float[Tensor, "edges keys"]]:
        """What each edge sends, in the frame of the cloud, and the key of its weight."""
        convolution = self._convolution
        order = convolution.max_order
        inward = edges.alignment(self._in_degree, order)
        messages, keys = convolution(features.index_select(0, edges.source), edges, inward)
        same = self._in_degree == self.degree
        outward = inward if same else edges.alignment(self.degree, order)
        return torch.bmm(outward.transpose(1, 2), messages), keys

    def _strength(
        self,
        queries: Float[Tensor, "points keys"],
        keys: Float[Tensor, "edges keys"],
        edges: EdgeGeometry,
    ) -> Float[Tensor, "edges heads"]:
        """The numerator c_ij exp(q_i . k_ij) of the weight alpha of each edge and head."""
        product = (
            (queries.index_select(0, edges.target) * keys)
            .unflatten(1, (self._heads, self._key_channels))
            .sum(-1)
        )
        logits = LOGIT_LIMIT * torch.tanh(product / (LOGIT_LIMIT * self._key_channels**0.5))
        return logits.exp() * smooth_cutoff(edges.length)[:, None]

    def _by_channel(self, by_head: Float[Tensor, "rows heads"]) -> Float[Tensor, "rows 1 channels"]:
        """Numbers of the heads, repeated for the channels that each head has."""
        share = self._channels // self._heads
        return by_head.repeat_interleave(share, dim=1)[:, None, :]


class DepthwiseTransformerLayer(TransformerLayer):
    """A `TransformerLayer` whose messages have channels that do not mix on the way.

    Channels are mixed at the points before, and by the layer's output after. Sums over edges are
    compiled, but for edges with derivatives by positions, and off the CPU.

    Args:
        in_degree: Highest degree of the input.
        degree: Highest degree of the output.
        channels: Channels of input, output and keys.
        heads: Heads of the attention; they share out the channels.
        gate_sizes: Whether the sizes of vectors have a say in the gate.
    """

    def __init__(
        self,
        in_degree: int,
        degree: int,
        channels: int,
        heads: int = 4,
        gate_sizes: bool = False,
    ) -> None:
        super().__init__(in_degree, degree, channels, heads, channels // heads, gate_sizes)
        self._input = EquivariantLinear(in_degree, channels, channels, bias=False)

    def _make_convolution(self) -> nn.Module:
        return DepthwiseConvolution(self._in_degree, self.degree, self._channels)

    def _attend(
        self, features: Float[Tensor, "points in_components channels"], edges: EdgeGeometry
    ) -> Float[Tensor, "points components channels"]:
        queries, mixed = self._queries(features[:, 0]), self._input(features)
        on_cpu = features.device.type == "cpu"
        if self._convolution.compiled and on_cpu and not edges.differentiable:
            sums, totals = self._convolution.sums(mixed, queries, edges, self._heads, LOGIT_LIMIT)
            return sums / self._by_channel(1.0 + totals)
        messages, keys = self._convolution(mixed, edges)
        weighed = [(edges, messages, self._strength(queries, keys, edges))]
        return self._weighted_mean(weighed, edges.targets, component_count(self.degree))


def _padded(
    features: Float[Tensor, "points in_components channels"], degree: int
) -> Float[Tensor, "points components channels"]:
    """The features with zeros for the degrees they lack."""
    missing = component_count(degree) - features.shape[1]
    return features if missing == 0 else nn.functional.pad(features, (0, 0, 0, missing))
