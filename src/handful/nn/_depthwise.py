"""The depthwise edge-frame convolution: each channel by itself, with attention over neighbours.

As in `_convolution`, a kernel in the frame of an edge mixes rows of the same order |m| only: by one
number for m = 0, and for each m > 0 by two numbers a, b that act on rows (+m, -m) like a complex
number. Here these numbers are functions of the edge's length, learned for each order, pair of
degrees and channel, and channels are not mixed: a linear layer at the points does that before and
after (as in NequIP, Batzner et al., 2022). The functions are tabulated, and edges interpolate. An
edge then costs a twentieth of the arithmetic, and all of it is done in one compiled loop
(`_depthwise_kernels`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from handful.nn._depthwise_kernels import depthwise_kernels
from handful.nn._edge_turns import DEGREE as COMPILED_DEGREE
from handful.nn._frames import EdgeGeometry
from handful.nn._layout import component_count
from handful.nn._radial import bernstein_basis, knot_lengths


@dataclass(frozen=True)
class Couplings:
    """Tables of what is multiplied and added in the frame of an edge.

    Rows of a frame are numbered like components, by degree and order. The last row holds keys.

    Attributes:
        inward: (row, component, entry): row += entry of the Wigner matrices * feature.
        mixing: (row out, row in, weight, sign): row out += sign * weight * row in.
        outward: (row, component, entry): component += entry of the Wigner matrices * row.
        weights: How many weights a channel has.
        inputs: For each weight, how many rows its output is a sum of.
        key: The row of the keys.
    """

    inward: Int[np.ndarray, "entries 3"]
    mixing: Int[np.ndarray, "products 4"]
    outward: Int[np.ndarray, "more_entries 3"]
    weights: int
    inputs: tuple[int, ...]
    key: int

    @classmethod
    @lru_cache(maxsize=64)
    def between(cls, in_degree: int, out_degree: int) -> Couplings:
        """All couplings of orders that both input and output have."""
        key = component_count(max(in_degree, out_degree))
        mixing: list[tuple[int, int, int, int]] = []
        inputs: list[int] = []
        for order in range(min(in_degree, out_degree) + 1):
            degrees_in, degrees_out = range(order, in_degree + 1), range(order, out_degree + 1)
            for out in degrees_out:
                for into in degrees_in:
                    plus, minus = _row(out, order), _row(out, -order)
                    plus_in, minus_in = _row(into, order), _row(into, -order)
                    weight = len(inputs)
                    if order == 0:
                        mixing.append((plus, plus_in, weight, 1))
                        inputs.append(len(degrees_in))
                        continue
                    mixing += [(plus, plus_in, weight, 1), (minus, minus_in, weight, 1)]
                    mixing += [(plus, minus_in, weight + 1, -1), (minus, plus_in, weight + 1, 1)]
                    inputs += [2 * len(degrees_in)] * 2
        for into in range(in_degree + 1):
            mixing.append((key, _row(into, 0), len(inputs), 1))
            inputs.append(in_degree + 1)
        reach = min(in_degree, out_degree)
        return cls(
            _turns(in_degree, reach),
            np.array(mixing),
            _turns(out_degree, reach),
            len(inputs),
            tuple(inputs),
            key,
        )


class DepthwiseConvolution(nn.Module):
    """Messages of edges and their keys, each channel by itself.

    Args:
        in_degree: Highest degree of the features.
        out_degree: Highest degree of the messages.
        channels: Channels of features, messages and keys.
        radial_basis: Polynomials of an edge's length that weights are made of.
    """

    def __init__(
        self, in_degree: int, out_degree: int, channels: int, *, radial_basis: int = 8
    ) -> None:
        super().__init__()
        self._in_degree, self._out_degree = in_degree, out_degree
        self._couplings = Couplings.between(in_degree, out_degree)
        scale = torch.tensor(self._couplings.inputs).rsqrt()[:, None, None]
        self.weights = nn.Parameter(
            torch.randn(self._couplings.weights, channels, radial_basis) * scale
        )

    @property
    def compiled(self) -> bool:
        """Whether there are kernels for these degrees."""
        return self._in_degree == self._out_degree == COMPILED_DEGREE

    def forward(
        self, features: Float[Tensor, "points in_components channels"], edges: EdgeGeometry
    ) -> tuple[Float[Tensor, "edges components channels"], Float[Tensor, "edges channels"]]:
        """Messages in the frame of the cloud, and keys, by array operations."""
        couplings, table = self._couplings, self._table()
        knot, part = edges.radial_knots
        low, high = table.index_select(0, knot), table.index_select(0, knot + 1)
        weights = torch.lerp(low, high, part[:, None]).unflatten(1, self.weights.shape[:2])
        turns = edges.turns(max(self._in_degree, self._out_degree))
        sources = features.index_select(0, edges.source)
        local = _turned(sources, turns, couplings.inward[:, [1, 0, 2]], couplings.key)
        mixed = local.new_zeros(len(local), couplings.key + 1, local.shape[2])
        into, row, weight, sign = torch.from_numpy(couplings.mixing).unbind(1)
        products = local[:, row] * weights[:, weight] * sign[None, :, None]
        mixed = mixed.index_add(1, into, products)
        components = component_count(self._out_degree)
        return _turned(mixed, turns, couplings.outward, components), mixed[:, couplings.key]

    def sums(
        self,
        features: Float[Tensor, "points in_components channels"],
        queries: Float[Tensor, "points channels"],
        edges: EdgeGeometry,
        heads: int,
        limit: float,
    ) -> tuple[Float[Tensor, "points components channels"], Float[Tensor, "points heads"]]:
        """Messages, weighed and summed over the edges of each point, and the sums of the weights.

        Compiled; it has derivatives by everything but the positions of points.

        Args:
            features: Of the points.
            queries: Of the points.
            edges: Between the points.
            heads: Heads of the attention, which share out the channels.
            limit: Largest absolute logit.
        """
        inputs = features.flatten(1), queries, self._table()
        sums, totals = _Sums.apply(edges, heads, limit, *inputs)
        return sums.unflatten(1, features.shape[1:]), totals

    def _table(self) -> Float[Tensor, "knots weights_channels"]:
        """The weights at the lengths of the knots."""
        flat = self.weights.flatten(0, 1)
        return bernstein_basis(knot_lengths(flat), flat.shape[1]) @ flat.mT


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, edges: EdgeGeometry, heads: int, limit: float, *inputs: Tensor
    ) -> tuple[Tensor, Tensor]:
        inputs = tuple(tensor.contiguous() for tensor in inputs)
        features, queries, _ = inputs
        kernels = depthwise_kernels(queries.shape[1])
        given = _inputs(edges, *inputs)
        strengths = features.new_empty(len(edges.source), heads)
        kernels.products(*given, strengths.numpy())
        # Both in place: e^(limit tanh(product / (limit √n))) with n channels of a head.
        narrow = math.sqrt(queries.shape[1] // heads)
        bent = strengths.div_(limit * narrow).tanh_()
        strengths = (bent * limit).exp_().mul_(edges.cutoff[:, None])
        ctx.edges, ctx.narrow = edges, narrow
        ctx.save_for_backward(*inputs, bent, strengths)
        sums = torch.zeros_like(features)
        totals = features.new_zeros(len(features), heads)
        kernels.there(*given, strengths.numpy(), sums.numpy(), totals.numpy())
        return sums, totals

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        *inputs, bent, strengths = ctx.saved_tensors
        rises = (1.0 - bent.square()).mul_(strengths).div_(ctx.narrow)
        slopes = [torch.zeros_like(tensor) for tensor in inputs]
        kernels = depthwise_kernels(inputs[1].shape[1])
        kernels.back(
            *_inputs(ctx.edges, *inputs),
            strengths.numpy(),
            rises.numpy(),
            *(grad.contiguous().numpy() for grad in grads),
            *(slope.numpy() for slope in slopes),
        )
        return None, None, None, *slopes


def _inputs(edges: EdgeGeometry, *inputs: Tensor) -> list[Any]:
    """What all kernels take first."""
    features, queries, table = (tensor.numpy() for tensor in inputs)
    knot, part = edges.radial_knots
    ends = edges.source.numpy(), edges.target.numpy()
    parts, turns = (
        tensor.detach().contiguous().numpy() for tensor in (part, edges.turns(COMPILED_DEGREE))
    )
    return [features, queries, *ends, knot.numpy(), parts, table, turns]


def _turned(
    values: Float[Tensor, "edges rows channels"],
    turns: Float[Tensor, "edges all_entries"],
    table: Int[np.ndarray, "entries 3"],
    rows: int,
) -> Float[Tensor, "edges rows_out channels"]:
    """The sums of a table (row in, row out, entry)."""
    given, into, entry = torch.from_numpy(table).unbind(1)
    products = values[:, given] * turns[:, entry, None]
    return values.new_zeros(len(values), rows, values.shape[2]).index_add(1, into, products)


def _turns(degree: int, reach: int) -> Int[np.ndarray, "entries 3"]:
    """(row, component, entry) of all entries of Wigner matrices in rows of orders up to `reach`."""
    table, first = [], 0
    for each in range(degree + 1):
        size = 2 * each + 1
        for order in range(-each, each + 1):
            for other in range(-each, each + 1):
                if abs(order) <= reach:
                    entry = first + (order + each) * size + other + each
                    table.append((_row(each, order), _row(each, other), entry))
        first += size * size
    return np.array(table)


def _row(degree: int, order: int) -> int:
    return degree * degree + degree + order
