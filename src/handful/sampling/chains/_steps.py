"""What the steps of chains and of refinement share: their scales, their drift, their rounding."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from handful.geometry import pose_from_rotation_translation


def step_scale(angle: float, distance: float, dtype: torch.dtype) -> Float[Tensor, "6"]:
    """The diagonal of M^½ for tangent vectors (ω, u): radians for ω, metres for u."""
    return torch.tensor([angle] * 3 + [distance] * 3, dtype=dtype)


def standard_drift(
    gradients: Float[Tensor, "poses 6"], scale: Float[Tensor, "6"], limit: float
) -> Float[Tensor, "poses 6"]:
    """The drift in units of the noise, M^-½ (-½ M ∇E), with its two parts cut to a length.

    Args:
        gradients: Lᵀ ∂E/∂z [poses, 6] (`Target.energies_and_gradients`).
        scale: The diagonal of M^½ (`step_scale`).
        limit: The longest drift of rotation, and the longest of position, in units of the noise.
    """
    drift = (-0.5 * scale * gradients).unflatten(-1, (2, 3))
    length = drift.square().sum(-1, keepdim=True).sqrt()
    return (drift * (limit / length.clamp_min(limit) if limit < math.inf else 1.0)).flatten(-2)


def reorthonormalised(centred: Float[Tensor, "poses 4 4"]) -> Float[Tensor, "poses 4 4"]:
    """The poses with the rounding of many products taken out of their rotations.

    One Newton step of the polar decomposition, R (3 I - RᵀR) / 2, squares an error that is already
    small.
    """
    rotation, translation = centred[:, :3, :3], centred[:, :3, 3]
    identity = torch.eye(3, dtype=centred.dtype)
    mended = rotation @ (1.5 * identity - 0.5 * rotation.mT @ rotation)
    return pose_from_rotation_translation(mended, translation)
