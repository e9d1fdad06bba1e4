"""Rigid motions as arrays: checks, and 4x4 matrices from quaternions.

`geometry` does the same with tensors. What reads clouds and demonstrations needs no more than this,
and does not load PyTorch, which takes longer than most of them.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from handful.errors import GeometryError

TOLERANCE = 1e-4
"""Lets through matrices that are written with five digits."""


def check_rotation(
    value: np.ndarray, *, name: str = "rotation", tolerance: float = TOLERANCE
) -> np.ndarray:
    """Return `value` unchanged if it holds rotation matrices; otherwise say what is wrong.

    Args:
        value: Array [..., 3, 3] of any floating type.
        name: What the message calls the value.
        tolerance: Largest allowed entry of |RᵀR - I|.

    Raises:
        GeometryError: Wrong shape or type, a value that is not finite, rows that are not
            orthonormal, or a reflection.
    """
    _check_square(value, 3, name)
    _check_finite(value, name)
    _check_orthonormal(value, value, name, tolerance)
    return value


def check_pose(
    value: np.ndarray, *, name: str = "pose", tolerance: float = TOLERANCE
) -> np.ndarray:
    """Return `value` unchanged if it holds rigid motions; otherwise say what is wrong.

    Args:
        value: Array [..., 4, 4] of any floating type.
        name: What the message calls the value, for example ``"T_scene_gripper"``.
        tolerance: Largest allowed entry of |RᵀR - I| and error of the last row.

    Raises:
        GeometryError: Wrong shape or type, a value that is not finite, a last row that is not
            (0, 0, 0, 1), a rotation part that is not orthonormal, or a reflection.
    """
    _check_square(value, 4, name)
    _check_finite(value, name)
    error = np.abs(value[..., 3, :] - np.array([0.0, 0.0, 0.0, 1.0])).max(axis=-1)
    if (error > tolerance).any():
        where, matrix = _worst(error, value)
        row = [round(entry, 6) for entry in matrix[3].tolist()]
        raise GeometryError(
            f"{name}{where} has the last row {row}: a rigid motion needs [0, 0, 0, 1]. If the "
            "matrix is transposed, transpose it back."
        )
    _check_orthonormal(value[..., :3, :3], value, name, tolerance)
    return value


def poses_from_wxyz_xyz(wxyz_xyz: Float[np.ndarray, "*batch 7"]) -> Float[np.ndarray, "... 4 4"]:
    """Poses of non-zero quaternions (wxyz), of any length, and translations."""
    w, x, y, z, *translation = np.moveaxis(wxyz_xyz, -1, 0)
    scale = 2.0 / (w * w + x * x + y * y + z * z)
    xs, ys, zs = x * scale, y * scale, z * scale
    poses = np.zeros((*wxyz_xyz.shape[:-1], 4, 4), wxyz_xyz.dtype)
    rows = (
        (1.0 - (y * ys + z * zs), x * ys - w * zs, x * zs + w * ys),
        (x * ys + w * zs, 1.0 - (x * xs + z * zs), y * zs - w * xs),
        (x * zs - w * ys, y * zs + w * xs, 1.0 - (x * xs + y * ys)),
    )
    for i, (row, offset) in enumerate(zip(rows, translation, strict=True)):
        for j, entry in enumerate((*row, offset)):
            poses[..., i, j] = entry
    poses[..., 3, 3] = 1.0
    return poses


def _check_square(value: np.ndarray, size: int, name: str) -> None:
    if value.dtype.kind != "f":
        raise GeometryError(f"{name} has dtype {value.dtype}: need a real floating type.")
    if value.ndim < 2 or value.shape[-2:] != (size, size):
        raise GeometryError(f"{name} has shape {value.shape}: need [..., {size}, {size}] matrices.")


def _check_finite(value: np.ndarray, name: str) -> None:
    bad = (~np.isfinite(value)).sum(axis=(-2, -1))
    if bad.any():
        where, matrix = _worst(bad, value)
        raise GeometryError(
            f"{name}{where} holds values that are not finite: {_show(matrix)}. Every entry must be "
            "a finite number."
        )


def _check_orthonormal(
    rotation: np.ndarray, value: np.ndarray, name: str, tolerance: float
) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        product = np.swapaxes(rotation, -1, -2) @ rotation
        error = np.abs(product - np.eye(3)).max(axis=(-2, -1))
    # Overflow to inf - inf must not slip through the comparison.
    error = np.where(np.isnan(error), np.inf, error)
    if (error > tolerance).any():
        where, matrix = _worst(error, value)
        raise GeometryError(
            f"{name}{where} is not a rotation: |RᵀR - I| reaches {float(error.max()):.3g}, at most "
            f"{tolerance:g} is allowed. Found {_show(matrix)}. Use nearest_rotation() if the error "
            "is rounding."
        )
    determinant = np.linalg.det(rotation)
    if (determinant < 0).any():
        where, matrix = _worst(-determinant, value)
        raise GeometryError(
            f"{name}{where} is a reflection: its determinant is -1, a rotation needs +1. Found "
            f"{_show(matrix)}. Check for a flipped axis or a left-handed frame."
        )


def _worst(error: np.ndarray | np.generic, value: np.ndarray) -> tuple[str, np.ndarray]:
    """Where in the batch the largest error is, as text, and the matrix found there."""
    if error.ndim == 0:
        return "", value
    index = [int(one) for one in np.unravel_index(int(error.argmax()), error.shape)]
    return str(index), value[tuple(index)]


def _show(matrix: np.ndarray) -> str:
    return str([[float(f"{entry:.6g}") for entry in row] for row in matrix.tolist()])
