"""Projection onto SO(3), and means of rotations and poses."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ._poses import pose_from_rotation_translation, pose_to_rotation_translation
from ._rotations import rotation_exp, rotation_log, skew, unskew
from ._series import cot_defect_of_square


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


def rotation_chordal_mean(
    rotations: Float[Tensor, "*batch count 3 3"],
    weights: Float[Tensor, "*batch count"] | None = None,
) -> Float[Tensor, "*batch 3 3"]:
    """argmin_R Σ_i w_i |R - R_i|² (Frobenius): the projection of the arithmetic mean.

    Args:
        rotations: Rotation matrices [..., count, 3, 3].
        weights: Non-negative [..., count]; equal if left out. They need not sum to one.
    """
    shares = _shares(rotations, weights)
    return nearest_rotation((shares[..., None, None] * rotations).sum(-3))


def rotation_karcher_mean(
    rotations: Float[Tensor, "*batch count 3 3"],
    weights: Float[Tensor, "*batch count"] | None = None,
    *,
    iterations: int = 20,
) -> Float[Tensor, "*batch 3 3"]:
    """argmin_R Σ_i w_i |log(Rᵀ R_i)|²: the mean in the geodesic distance.

    Newton's method from the chordal mean: δ = H⁻¹ Σ w φ_i with φ_i = log(Rᵀ R_i) and
    H = Σ w (I + c(φ_i) [φ_i]×²). It is the unique mean when the rotations lie within a ball of
    radius π/2; spread wider, it is the local mean next to the chordal one. Differentiable: the
    last step carries the gradient of the fixed point.

    Args:
        rotations: Rotation matrices [..., count, 3, 3].
        weights: Non-negative [..., count]; equal if left out. They need not sum to one.
        iterations: Newton steps; a handful is enough for clustered rotations.
    """
    shares = _shares(rotations, weights)
    with torch.no_grad():
        mean = nearest_rotation((shares[..., None, None] * rotations).sum(-3))
        for _ in range(iterations):
            step = _karcher_step(mean, rotations, shares)
            mean = mean @ rotation_exp(step)
            if bool((step.abs() < 4 * torch.finfo(step.dtype).eps).all()):
                break
    return mean @ rotation_exp(_karcher_step(mean, rotations, shares))


def pose_mean(
    poses: Float[Tensor, "*batch count 4 4"], weights: Float[Tensor, "*batch count"] | None = None
) -> Float[Tensor, "*batch 4 4"]:
    """Karcher mean of the rotations with the arithmetic mean of the translations.

    Args:
        poses: Poses [..., count, 4, 4].
        weights: Non-negative [..., count]; equal if left out. They need not sum to one.
    """
    rotations, translations = pose_to_rotation_translation(poses)
    shares = _shares(rotations, weights)
    return pose_from_rotation_translation(
        rotation_karcher_mean(rotations, shares), (shares[..., None] * translations).sum(-2)
    )


def _shares(rotations: Tensor, weights: Tensor | None) -> Tensor:
    if weights is None:
        weights = rotations.new_ones(rotations.shape[:-2])
    return weights / weights.sum(-1, keepdim=True)


def _karcher_step(mean: Tensor, rotations: Tensor, shares: Tensor) -> Tensor:
    logs = rotation_log(mean[..., None, :, :].mT @ rotations)
    with torch.no_grad():
        generators = skew(logs)
        bend = cot_defect_of_square(logs.square().sum(-1))
        terms = (shares * bend)[..., None, None] * (generators @ generators)
        hessian = torch.eye(3, dtype=logs.dtype, device=logs.device) + terms.sum(-3)
    return torch.linalg.solve(hessian, (shares[..., None] * logs).sum(-2))
