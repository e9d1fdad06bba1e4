"""Projection of matrices onto SO(3)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ._rotations import rotation_exp, unskew


def nearest_rotation(matrix: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch 3 3"]:
    """The rotation closest to a matrix in Frobenius norm.

    The value comes from the singular value decomposition, U diag(1, 1, det UVᵀ) Vᵀ. The gradient
    comes from one Newton step at the solution, which is finite also for equal singular values
    (where differentiating the decomposition is not). The matrix must not be so degenerate that
    its nearest rotation is not unique (rank 1 or 0).
    """
    with torch.no_grad():
        left, _, right = torch.linalg.svd(matrix)
        sign = torch.linalg.det(left @ right)
        flip = torch.stack([torch.ones_like(sign), torch.ones_like(sign), sign], dim=-1)
        solution = (left * flip[..., None, :]) @ right
    if not matrix.requires_grad:
        return solution
    # For Rᵀ M = S + K with S symmetric, K skew: M = R exp([δ]×) S to first order in K gives
    # (tr(S) I - S) δ = 2 unskew(K).
    residual = solution.mT @ matrix
    symmetric = (0.5 * (residual + residual.mT)).detach()
    trace = symmetric.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    curvature = trace * torch.eye(3, dtype=matrix.dtype, device=matrix.device) - symmetric
    step = torch.linalg.solve(curvature, 2.0 * unskew(residual))
    return solution @ rotation_exp(step)
