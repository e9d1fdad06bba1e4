"""Products of rows with the matrix of their segment, differentiable any number of times.

Edges that leave the same point are multiplied by that point's matrix. A batched product would pad
or copy; a loop over segments does neither, but is slow when autograd records every turn of it. Here
the loop is inside two functions whose derivatives are made of each other.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Bounds = list[tuple[int, int, int]]
"""(segment, first row, row after the last) of each segment that has rows, rows ascending."""


def segment_matmul(
    rows: Float[Tensor, "rows inputs"],
    matrices: Float[Tensor, "segments inputs outputs"],
    bounds: Bounds,
) -> Float[Tensor, "rows outputs"]:
    """rows[r] @ matrices[segment of r] for each row r."""
    return _SegmentMatmul.apply(rows, matrices, bounds)


def _segment_outer(
    rows: Float[Tensor, "rows inputs"],
    others: Float[Tensor, "rows outputs"],
    bounds: Bounds,
    segments: int,
) -> Float[Tensor, "segments inputs outputs"]:
    """Sum of the outer products rows[r] (x) others[r] of each segment."""
    return _SegmentOuter.apply(rows, others, bounds, segments)


class _SegmentMatmul(torch.autograd.Function):
    """rows, matrices -> products."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrices: Tensor, bounds: Bounds) -> Tensor:
        ctx.save_for_backward(rows, matrices)
        ctx.bounds = bounds
        products = rows.new_empty(len(rows), matrices.shape[2])
        for segment, first, end in bounds:
            torch.mm(rows[first:end], matrices[segment], out=products[first:end])
        return products

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        rows, matrices = ctx.saved_tensors
        for_rows = for_matrices = None
        if ctx.needs_input_grad[0]:
            for_rows = segment_matmul(grad, matrices.transpose(1, 2), ctx.bounds)
        if ctx.needs_input_grad[1]:
            for_matrices = _segment_outer(rows, grad, ctx.bounds, len(matrices))
        return for_rows, for_matrices, None


class _SegmentOuter(torch.autograd.Function):
    """rows, others -> sums of outer products."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, others: Tensor, bounds: Bounds, segments: int) -> Tensor:
        ctx.save_for_backward(rows, others)
        ctx.bounds = bounds
        sums = rows.new_zeros(segments, rows.shape[1], others.shape[1])
        for segment, first, end in bounds:
            torch.mm(rows[first:end].T, others[first:end], out=sums[segment])
        return sums

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        rows, others = ctx.saved_tensors
        for_rows = for_others = None
        if ctx.needs_input_grad[0]:
            for_rows = segment_matmul(others, grad.transpose(1, 2), ctx.bounds)
        if ctx.needs_input_grad[1]:
            for_others = segment_matmul(rows, grad, ctx.bounds)
        return for_rows, for_others, None, None
