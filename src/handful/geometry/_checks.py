"""Checks at public boundaries: is this tensor what it is said to be?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from handful.errors import GeometryError


def check_rotation(value: Tensor, *, name: str = "rotation", tolerance: float = 1e-4) -> Tensor:
    """Return `value` unchanged if it holds rotation matrices; otherwise say what is wrong.

    Args:
        value: Tensor [..., 3, 3] of any floating type.
        name: What the message calls the value.
        tolerance: Largest allowed entry of |RᵀR - I|. The default lets through matrices written
            with five digits.

    Raises:
        GeometryError: Wrong shape or type, a value that is not finite, rows that are not
            orthonormal, or a reflection.
    """
    _check_square(value, 3, name)
    _check_finite(value, name)
    _check_orthonormal(value, value, name, tolerance)
    return value


def check_pose(value: Tensor, *, name: str = "pose", tolerance: float = 1e-4) -> Tensor:
    """Return `value` unchanged if it holds rigid motions; otherwise say what is wrong.

    Args:
        value: Tensor [..., 4, 4] of any floating type.
        name: What the message calls the value, for example ``"T_scene_gripper"``.
        tolerance: Largest allowed entry of |RᵀR - I| and error of the last row.

    Raises:
        GeometryError: Wrong shape or type, a value that is not finite, a last row that is not
            (0, 0, 0, 1), a rotation part that is not orthonormal, or a reflection.
    """
    _check_square(value, 4, name)
    _check_finite(value, name)
    error = (value[..., 3, :] - value.new_tensor([0.0, 0.0, 0.0, 1.0])).abs().amax(-1)
    if bool((error > tolerance).any()):
        where, matrix = _worst(error, value)
        row = [round(entry, 6) for entry in matrix[3].tolist()]
        raise GeometryError(
            f"{name}{where} has the last row {row}: a rigid motion needs [0, 0, 0, 1]. If the "
            "matrix is transposed, transpose it back."
        )
    _check_orthonormal(value[..., :3, :3], value, name, tolerance)
    return value


def poses_array(value: Any, name: str = "pose") -> Float[np.ndarray, "poses 4 4"]:
    """Poses that a caller gave as anything like an array, as float64 [poses, 4, 4].

    Args:
        value: One pose or several.
        name: What the message calls them.

    Raises:
        GeometryError: They are no rigid motions.
    """
    try:
        poses = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise GeometryError(f"{name} is {type(value).__name__}: need 4x4 matrices.") from error
    poses = poses[None] if poses.ndim == 2 else poses
    if poses.ndim != 3:
        raise GeometryError(f"{name} has shape {poses.shape}: need 4x4 matrices [poses, 4, 4].")
    check_pose(torch.tensor(poses), name=name)
    return poses


def _check_square(value: Tensor, size: int, name: str) -> None:
    if not torch.is_floating_point(value):
        raise GeometryError(f"{name} has dtype {value.dtype}: need a real floating type.")
    if value.ndim < 2 or tuple(value.shape[-2:]) != (size, size):
        raise GeometryError(
            f"{name} has shape {tuple(value.shape)}: need [..., {size}, {size}] matrices."
        )


def _check_finite(value: Tensor, name: str) -> None:
    bad = (~torch.isfinite(value)).sum(dim=(-2, -1))
    if bool(bad.any()):
        where, matrix = _worst(bad, value)
        raise GeometryError(
            f"{name}{where} holds values that are not finite: {_show(matrix)}. Every entry must be "
            "a finite number."
        )


def _check_orthonormal(rotation: Tensor, value: Tensor, name: str, tolerance: float) -> None:
    identity = torch.eye(3, dtype=rotation.dtype, device=rotation.device)
    error = (rotation.mT @ rotation - identity).abs().amax((-2, -1))
    # Overflow to inf - inf must not slip through the comparison.
    error = torch.nan_to_num(error, nan=float("inf"))
    if bool((error > tolerance).any()):
        where, matrix = _worst(error, value)
        raise GeometryError(
            f"{name}{where} is not a rotation: |RᵀR - I| reaches {float(error.max()):.3g}, at most "
            f"{tolerance:g} is allowed. Found {_show(matrix)}. Use nearest_rotation() if the error "
            "is rounding."
        )
    determinant = torch.linalg.det(rotation)
    if bool((determinant < 0).any()):
        where, matrix = _worst(-determinant, value)
        raise GeometryError(
            f"{name}{where} is a reflection: its determinant is -1, a rotation needs +1. Found "
            f"{_show(matrix)}. Check for a flipped axis or a left-handed frame."
        )


def _worst(error: Tensor, value: Tensor) -> tuple[str, Tensor]:
    """Where in the batch the largest error is, as text, and the matrix found there."""
    if error.ndim == 0:
        return "", value
    flat = int(error.flatten().argmax())
    index: list[int] = []
    for size in reversed(error.shape):
        flat, position = divmod(flat, size)
        index.insert(0, position)
    return str(index), value[tuple(index)]


def _show(matrix: Tensor) -> str:
    return str([[float(f"{entry:.6g}") for entry in row] for row in matrix.tolist()])
