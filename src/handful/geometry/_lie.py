"""Lie derivatives in quaternion-translation coordinates (eq. lie-deriv-param).

Coordinates are z = (q, v) in R⁷: a unit quaternion wxyz and a translation in the space (scene)
frame. Column i of a Lie derivative matrix L is dz/ds at s = 0 along the curve of basis vector V_i,
so that by the chain rule the Lie derivatives of a function f are Lᵀ ∂f/∂z.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ._rotations import quat_to_rotation


def quat_derivative_matrix(quat: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 4 3"]:
    """L_SO(3) of eq. lie-deriv-param: d/ds of q exp(s e_i / 2) at s = 0.

    The increment multiplies from the right, so the three axes are those of the body frame. For a
    unit quaternion the columns are orthogonal to q and LᵀL = I / 4.
    """
    w, x, y, z = quat.unbind(-1)
    rows = torch.stack([-x, -y, -z, w, -z, y, z, w, -x, -y, x, w], dim=-1)
    return 0.5 * rows.reshape(*quat.shape, 3)


def lie_derivative_matrix(quat: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 7 6"]:
    """The paper's L (eq. lie-deriv-param): block-diagonal with L_SO(3) and I.

    With the identity as its translation block, L differentiates along the curves

        s ↦ (R exp(s [ω]×), v + s u),

    which turn about the body axes and move along the *space* axes (`pose_retract`). They are
    g exp(sV) in the product group SO(3) x R³, not in SE(3): there g exp(sV) would move the origin
    along the body axes, and the block would be R (`body_lie_derivative_matrix`). The Langevin
    process (eq. langevin_coord) has the same law under both, because G⁻¹ = L Lᵀ is the same
    (R Rᵀ = I) and the noise L dw has that covariance; only the names of the axes differ.

    Args:
        quat: Unit quaternion wxyz [..., 4].

    Returns:
        L [..., 7, 6]; rows are (w, x, y, z, v_x, v_y, v_z), columns V_1..V_3 (rotation) and
        V_4..V_6 (translation).
    """
    identity = torch.eye(3, dtype=quat.dtype, device=quat.device)
    return _block_diagonal(quat_derivative_matrix(quat), identity.expand(*quat.shape[:-1], 3, 3))


def body_lie_derivative_matrix(quat: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 7 6"]:
    """L for f(g exp(sV)) with the exponential of SE(3) itself: block-diagonal with L_SO(3) and R.

    Both the rotation and the translation follow the axes of the body (gripper) frame: at s = 0,
    g exp(sV) = (R exp(s [ω]×), v + s R u + O(s²)).

    Args:
        quat: Unit quaternion wxyz [..., 4].

    Returns:
        L [..., 7, 6], rows and columns as in `lie_derivative_matrix`.
    """
    return _block_diagonal(quat_derivative_matrix(quat), quat_to_rotation(quat))


def _block_diagonal(upper: Tensor, lower: Tensor) -> Tensor:
    zeros = torch.zeros_like(upper)
    left = torch.cat([upper, zeros[..., :3, :]], dim=-2)
    right = torch.cat([zeros, lower], dim=-2)
    return torch.cat([left, right], dim=-1)
