"""The sums over neighbours of a tensor field, compiled, with their derivatives.

Two orders of one sum, each with the weights' sum beside it. First derivatives are compiled, too.
Derivatives of derivatives, which only a few callers ask for, come from array operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, no_type_check

import torch
from jaxtyping import Float, Int
from torch import Tensor

from handful._compiled import compiled
from handful.nn._field_kernels import field_kernels
from handful.nn._frames import EdgeGeometry


@dataclass(frozen=True, eq=False)
class FieldEdges:
    """Edges from the points of a cloud to positions in its field.

    Attributes:
        target: Index of the position of each edge, ascending.
        source: Index of the point of each edge.
        positions: Where the field is asked, metres.
        points: The points of the cloud, metres.
        radius: How far points are seen, metres.
    """

    target: Int[Tensor, "edges"]
    source: Int[Tensor, "edges"]
    positions: Float[Tensor, "positions 3"]
    points: Float[Tensor, "points 3"]
    radius: float

    @property
    def geometry(self) -> EdgeGeometry:
        """Lengths and directions, differentiable by the positions."""
        return EdgeGeometry.between(
            self.target, self.source, self.positions, self.points, self.radius
        )

    @cached_property
    def by_source(self) -> FieldEdges:
        """The same edges sorted by source."""
        target, source = torch.empty_like(self.target), torch.empty_like(self.source)
        counts = torch.bincount(self.source, minlength=len(self.points))
        numbers = (counts.cumsum(0) - counts, self.target, self.source, target, source)
        _sort_by_source(*(tensor.numpy() for tensor in numbers))
        return replace(self, target=target, source=source)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What kernels take: positions, points, target, source, and the radius as such a number."""
        positions, points = self.positions.detach().numpy(), self.points.numpy()
        radius = points.dtype.type(self.radius)
        return positions, points, self.target.numpy(), self.source.numpy(), radius


@dataclass(frozen=True)
class FieldBasis:
    """How many basis functions an edge has.

    Attributes:
        radial: Radial functions.
        max_harmonic: Highest degree of the harmonics.
    """

    radial: int
    max_harmonic: int

    @property
    def size(self) -> int:
        """Radial functions times harmonics."""
        return self.radial * (self.max_harmonic + 1) ** 2


SlowSums = Callable[[EdgeGeometry, Tensor], tuple[Tensor, Tensor]]
"""The same sums by array operations, differentiable any number of times."""


def outer_sums(
    basis: FieldBasis,
    edges: FieldEdges,
    features: Float[Tensor, "points inputs"],
    slow: SlowSums,
) -> tuple[Float[Tensor, "positions basis inputs"], Float[Tensor, "positions"]]:
    """For each position the sum of basis ⊗ features over its edges, and that of the cut-off."""
    return _Sums.apply(True, basis, edges, slow, edges.positions, features)


def product_sums(
    basis: FieldBasis,
    edges: FieldEdges,
    matrices: Float[Tensor, "points basis outputs"],
    slow: SlowSums,
) -> tuple[Float[Tensor, "positions outputs"], Float[Tensor, "positions"]]:
    """For each position the sum of basis @ matrices over its edges, and that of the cut-off."""
    return _Sums.apply(False, basis, edges.by_source, slow, edges.positions, matrices)


@compiled
@no_type_check
def _sort_by_source(places, target, source, target_out, source_out):
    """Write edges in the order of their sources, given the place of the first edge of each."""
    for e in range(len(source)):
        j = source[e]
        target_out[places[j]] = target[e]
        source_out[places[j]] = j
        places[j] += 1


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        outer: bool,
        basis: FieldBasis,
        edges: FieldEdges,
        slow: SlowSums,
        positions: Tensor,
        known: Tensor,
    ) -> tuple[Tensor, Tensor]:
        known = known.contiguous()
        ctx.outer, ctx.basis, ctx.edges, ctx.slow = outer, basis, edges, slow
        ctx.save_for_backward(positions, known)
        width = known.shape[-1]
        kernels = field_kernels(basis.radial, basis.max_harmonic, width)
        shape = (len(positions), basis.size, width) if outer else (len(positions), width)
        sums, weights = known.new_zeros(shape), known.new_zeros(len(positions))
        kernel = kernels.outer if outer else kernels.product
        kernel(*edges.arrays, known.numpy(), sums.numpy(), weights.numpy())
        return sums, weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        positions, known = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody will differentiate these derivatives
            return None, None, None, None, *_slowly(ctx, positions, known, grads)
        by_sums, by_weights = (grad.contiguous().numpy() for grad in grads)
        kernels = field_kernels(ctx.basis.radial, ctx.basis.max_harmonic, known.shape[-1])
        moving, learning = ctx.needs_input_grad[4:]
        by_known = known.new_empty(known.shape if learning else known.ndim * [0])
        if ctx.outer:
            by_known.zero_()  # else the kernel does it, row by row
        by_positions = torch.zeros_like(positions)
        kernel = kernels.outer_back if ctx.outer else kernels.product_back
        kernel(
            *ctx.edges.arrays, known.numpy(), by_sums, by_weights,
            learning, moving, by_known.numpy(), by_positions.numpy(),
        )  # fmt: skip
        return None, None, None, None, by_positions, by_known if learning else None


def _slowly(ctx: Any, positions: Tensor, known: Tensor, grads: tuple[Tensor, ...]) -> list[Any]:
    """Derivatives by positions and by what is known, which can be differentiated again."""
    inputs = (positions, known)
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    values = ctx.slow(replace(ctx.edges, positions=positions).geometry, known)
    found = iter(torch.autograd.grad(values, wanted, grads, create_graph=True, allow_unused=True))
    return [next(found) if tensor.requires_grad else None for tensor in inputs]
