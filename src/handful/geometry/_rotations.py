"""Rotations as matrices, quaternions (wxyz) and rotation vectors, and the group SO(3).

A rotation vector is axis times angle in radians. Every conversion has finite gradients at angle 0
and at angle π. Matrices act on column vectors: x ↦ R x.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ._series import arc_over_chord, sinc_of_square, versine_of_square


def skew(vector: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 3 3"]:
    """The matrix [a]× with [a]× b = a × b."""
    x, y, z = vector.unbind(-1)
    zero = torch.zeros_like(x)
    flat = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], dim=-1)
    return flat.reshape(*vector.shape, 3)


def unskew(matrix: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch 3"]:
    """The vector a with [a]× equal to the skew part of a matrix; undoes `skew`."""
    return 0.5 * torch.stack(
        [
            matrix[..., 2, 1] - matrix[..., 1, 2],
            matrix[..., 0, 2] - matrix[..., 2, 0],
            matrix[..., 1, 0] - matrix[..., 0, 1],
        ],
        dim=-1,
    )


def rotation_exp(rotvec: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 3 3"]:
    """Rotation about `rotvec` by its length in radians (Rodrigues).

    exp [ω]× = I + (sin θ / θ) [ω]× + ((1 - cos θ) / θ²) [ω]×², θ = |ω|.
    """
    t = rotvec.square().sum(-1)[..., None, None]
    identity = torch.eye(3, dtype=rotvec.dtype, device=rotvec.device)
    # [ω]×² = ω ωᵀ - θ² I costs less than a batched matrix product.
    square = rotvec[..., :, None] * rotvec[..., None, :] - t * identity
    return identity + sinc_of_square(t) * skew(rotvec) + versine_of_square(t) * square


def rotation_log(rotation: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch 3"]:
    """Rotation vector of length at most π; undoes `rotation_exp` there.

    At exactly π both signs of the axis are right; one is returned and the gradient is that of its
    side.
    """
    return quat_to_rotvec(rotation_to_quat(rotation))


def rotvec_to_quat(rotvec: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 4"]:
    """Unit quaternion (wxyz) of a rotation vector: (cos θ/2, (sin θ/2 / θ) ω).

    The sign follows the angle continuously: w < 0 when π < θ < 3π.
    """
    quarter = 0.25 * rotvec.square().sum(-1, keepdim=True)
    # cos(θ/2) = 1 - (θ/2)² (1 - cos(θ/2)) / (θ/2)², free of the square root at zero.
    real = 1.0 - quarter * versine_of_square(quarter)
    return torch.cat([real, 0.5 * sinc_of_square(quarter) * rotvec], dim=-1)


def quat_to_rotvec(quat: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 3"]:
    """Rotation vector, of length at most π, of a non-zero quaternion (wxyz) of either sign."""
    unit = quat_canonical(quat_normalize(quat))
    real, imaginary = torch.split(unit, [1, 3], dim=-1)
    sine_squared = imaginary.square().sum(-1, keepdim=True)
    return 2.0 * arc_over_chord(sine_squared, real) * imaginary


def quat_to_rotation(quat: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 3 3"]:
    """Rotation matrix of a non-zero quaternion (wxyz); its length does not matter.

    Because the result does not depend on the length, gradients are tangent to the sphere at q.
    """
    w, x, y, z = quat.unbind(-1)
    scale = 2.0 / quat.square().sum(-1)
    xs, ys, zs = x * scale, y * scale, z * scale
    flat = torch.stack(
        [
            1.0 - (y * ys + z * zs),
            x * ys - w * zs,
            x * zs + w * ys,
            x * ys + w * zs,
            1.0 - (x * xs + z * zs),
            y * zs - w * xs,
            x * zs - w * ys,
            y * zs + w * xs,
            1.0 - (x * xs + y * ys),
        ],
        dim=-1,
    )
    return flat.reshape(*quat.shape[:-1], 3, 3)


def rotation_to_quat(rotation: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch 4"]:
    """Unit quaternion (wxyz) of a rotation matrix, canonical: w >= 0.

    The symmetric matrix 4 q qᵀ is linear in R; its row with the largest diagonal entry (at least
    1) is normalised, so the result is smooth everywhere but for the change of sign at angle π.
    """
    a, b, c = rotation.unbind(-2)
    r00, r01, r02 = a.unbind(-1)
    r10, r11, r12 = b.unbind(-1)
    r20, r21, r22 = c.unbind(-1)
    i, j, k = r21 - r12, r02 - r20, r10 - r01
    ij, ik, jk = r01 + r10, r02 + r20, r12 + r21
    diagonal = torch.stack(
        [1 + r00 + r11 + r22, 1 + r00 - r11 - r22, 1 - r00 + r11 - r22, 1 - r00 - r11 + r22], -1
    )
    ww, xx, yy, zz = diagonal.unbind(-1)
    rows = torch.stack([ww, i, j, k, i, xx, ij, ik, j, ij, yy, jk, k, ik, jk, zz], dim=-1)
    best = diagonal.argmax(-1, keepdim=True)[..., None].expand(*diagonal.shape[:-1], 1, 4)
    row = rows.reshape(*diagonal.shape, 4).gather(-2, best).squeeze(-2)
    return quat_canonical(quat_normalize(row))


def quat_normalize(quat: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 4"]:
    """A non-zero quaternion scaled to length one."""
    return quat / quat.square().sum(-1, keepdim=True).sqrt()


def quat_canonical(quat: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 4"]:
    """The one of q and -q with w >= 0; a half turn (w = 0) is returned as it came."""
    return torch.where(quat[..., :1] < 0, -quat, quat)


def quat_multiply(
    first: Float[Tensor, "*#batch 4"], second: Float[Tensor, "*#batch 4"]
) -> Float[Tensor, "... 4"]:
    """Hamilton product (wxyz); rotates by `second`, then by `first`. Batches broadcast."""
    w, x, y, z = first.unbind(-1)
    a, b, c, d = second.unbind(-1)
    return torch.stack(
        [
            w * a - x * b - y * c - z * d,
            w * b + x * a + y * d - z * c,
            w * c - x * d + y * a + z * b,
            w * d + x * c - y * b + z * a,
        ],
        dim=-1,
    )


def rotation_apply(
    rotation: Float[Tensor, "*#batch 3 3"], points: Float[Tensor, "*#batch points 3"]
) -> Float[Tensor, "... points 3"]:
    """R x for every point x of the batch element. Batches broadcast."""
    return points @ rotation.mT


def rotation_angle(rotation: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch"]:
    """Angle of a rotation in radians, in [0, π], accurate to rounding at both ends.

    ω = atan2(|skew part|, (tr R - 1) / 2). The angle has a kink at 0 and at π; the gradient there
    is zero.
    """
    sine_squared = unskew(rotation).square().sum(-1)
    positive = sine_squared > 0
    root = torch.where(positive, sine_squared, torch.ones_like(sine_squared)).sqrt()
    sine = torch.where(positive, root, torch.zeros_like(root))
    trace = rotation.diagonal(dim1=-2, dim2=-1).sum(-1)
    return torch.atan2(sine, 0.5 * (trace - 1.0))


def geodesic_distance(
    first: Float[Tensor, "*#batch 3 3"], second: Float[Tensor, "*#batch 3 3"]
) -> Float[Tensor, "..."]:
    """Angle in radians of the rotation that takes one to the other, |log(R1ᵀ R2)|."""
    return rotation_angle(first.mT @ second)
