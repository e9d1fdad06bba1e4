"""Rigid motions as 4x4 matrices, and the group SE(3).

A pose T = [[R, v], [0, 1]] maps x ↦ R x + v; `T_scene_gripper` maps gripper coordinates to scene
coordinates. Lengths are in metres at public boundaries. Six-vectors hold the rotation first and
the translation second, as the paper orders its basis V_1..V_6.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ._rotations import (
    geodesic_distance,
    quat_to_rotation,
    rotation_exp,
    rotation_log,
    rotation_to_quat,
)
from ._series import cot_defect_of_square, sinc_defect_of_square, versine_of_square


def pose_from_rotation_translation(
    rotation: Float[Tensor, "*batch 3 3"], translation: Float[Tensor, "*batch 3"]
) -> Float[Tensor, "*batch 4 4"]:
    """The pose x ↦ R x + v."""
    top = torch.cat([rotation, translation[..., None]], dim=-1)
    bottom = top.new_tensor([0.0, 0.0, 0.0, 1.0]).expand(*top.shape[:-2], 1, 4)
    return torch.cat([top, bottom], dim=-2)


def pose_to_rotation_translation(
    pose: Float[Tensor, "*batch 4 4"],
) -> tuple[Float[Tensor, "*batch 3 3"], Float[Tensor, "*batch 3"]]:
    """Rotation [..., 3, 3] and translation [..., 3] of a pose."""
    rotation, translation = torch.split(pose[..., :3, :], [3, 1], dim=-1)
    return rotation, translation.squeeze(-1)


def pose_from_quat_translation(
    quat: Float[Tensor, "*batch 4"], translation: Float[Tensor, "*batch 3"]
) -> Float[Tensor, "*batch 4 4"]:
    """The pose of a non-zero quaternion (wxyz), of any length, and a translation."""
    return pose_from_rotation_translation(quat_to_rotation(quat), translation)


def pose_to_quat_translation(
    pose: Float[Tensor, "*batch 4 4"],
) -> tuple[Float[Tensor, "*batch 4"], Float[Tensor, "*batch 3"]]:
    """Canonical unit quaternion (wxyz, w >= 0) and translation of a pose."""
    rotation, translation = pose_to_rotation_translation(pose)
    return rotation_to_quat(rotation), translation


def poses_from_wxyz_xyz(wxyz_xyz: Float[Tensor, "*batch 7"]) -> Float[Tensor, "*batch 4 4"]:
    """Poses of the paper's coordinates z = (q, v): quaternion wxyz, then translation."""
    quat, translation = torch.split(wxyz_xyz, [4, 3], dim=-1)
    return pose_from_quat_translation(quat, translation)


def poses_to_wxyz_xyz(pose: Float[Tensor, "*batch 4 4"]) -> Float[Tensor, "*batch 7"]:
    """The paper's coordinates z = (q, v) of poses; q is canonical (w >= 0)."""
    return torch.cat(pose_to_quat_translation(pose), dim=-1)


def pose_compose(
    first: Float[Tensor, "*#batch 4 4"], second: Float[Tensor, "*#batch 4 4"]
) -> Float[Tensor, "... 4 4"]:
    """The product T1 T2; `T_scene_base` and `T_base_gripper` give `T_scene_gripper`."""
    return first @ second


def pose_inverse(pose: Float[Tensor, "*batch 4 4"]) -> Float[Tensor, "*batch 4 4"]:
    """[[Rᵀ, -Rᵀ v], [0, 1]]; the inverse of `T_a_b` is `T_b_a`."""
    rotation, translation = pose_to_rotation_translation(pose)
    moved = (rotation.mT @ translation[..., None]).squeeze(-1)
    return pose_from_rotation_translation(rotation.mT, -moved)


def pose_apply(
    pose: Float[Tensor, "*#batch 4 4"], points: Float[Tensor, "*#batch points 3"]
) -> Float[Tensor, "... points 3"]:
    """R x + v for every point x of the batch element. Batches broadcast."""
    rotation, translation = pose_to_rotation_translation(pose)
    return points @ rotation.mT + translation[..., None, :]


def pose_exp(twist: Float[Tensor, "*batch 6"]) -> Float[Tensor, "*batch 4 4"]:
    """Screw motion of the twist (ω, u), rotation first: exp [[[ω]×, u], [0, 0]].

    R = exp [ω]× and v = V u, where V = I + (1 - cos θ)/θ² [ω]× + (θ - sin θ)/θ³ [ω]×².
    """
    rotvec, velocity = torch.split(twist, 3, dim=-1)
    t = rotvec.square().sum(-1)[..., None]
    once = torch.linalg.cross(rotvec, velocity)
    twice = torch.linalg.cross(rotvec, once)
    translation = velocity + versine_of_square(t) * once + sinc_defect_of_square(t) * twice
    return pose_from_rotation_translation(rotation_exp(rotvec), translation)


def pose_log(pose: Float[Tensor, "*batch 4 4"]) -> Float[Tensor, "*batch 6"]:
    """Twist (ω, u) with |ω| <= π; undoes `pose_exp` there.

    u = V⁻¹ v, where V⁻¹ = I - ½ [ω]× + (1 - (θ/2) cot(θ/2))/θ² [ω]×².
    """
    rotation, translation = pose_to_rotation_translation(pose)
    rotvec = rotation_log(rotation)
    t = rotvec.square().sum(-1)[..., None]
    once = torch.linalg.cross(rotvec, translation)
    twice = torch.linalg.cross(rotvec, once)
    velocity = translation - 0.5 * once + cot_defect_of_square(t) * twice
    return torch.cat([rotvec, velocity], dim=-1)


def pose_retract(
    pose: Float[Tensor, "*batch 4 4"], tangent: Float[Tensor, "*batch 6"]
) -> Float[Tensor, "*batch 4 4"]:
    """One step (ω, u) from a pose: (R exp [ω]×, v + u).

    ω turns about the axes of the body (gripper) frame; u moves along the axes of the space
    (scene) frame. These are the curves that `lie_derivative_matrix` differentiates, so the step of
    eq. langevin_coord stays exactly on the group.
    """
    rotation, translation = pose_to_rotation_translation(pose)
    rotvec, shift = torch.split(tangent, 3, dim=-1)
    return pose_from_rotation_translation(rotation @ rotation_exp(rotvec), translation + shift)


def pose_distance(
    first: Float[Tensor, "*#batch 4 4"], second: Float[Tensor, "*#batch 4 4"]
) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]:
    """Angle in radians and distance of the origins in the unit of the translations.

    The two are kept apart because SE(3) has no bi-invariant metric (appendix equiv_measure). The
    gradient of the distance of coinciding origins is zero.
    """
    first_rotation, first_translation = pose_to_rotation_translation(first)
    second_rotation, second_translation = pose_to_rotation_translation(second)
    square = (first_translation - second_translation).square().sum(-1)
    positive = square > 0
    root = torch.where(positive, square, torch.ones_like(square)).sqrt()
    length = torch.where(positive, root, torch.zeros_like(root))
    return geodesic_distance(first_rotation, second_rotation), length
