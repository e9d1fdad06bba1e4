"""Checks at public boundaries: is this tensor what it is said to be?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from handful import _rigid
from handful._rigid import TOLERANCE
from handful.errors import GeometryError


def check_rotation(
    value: Tensor, *, name: str = "rotation", tolerance: float = TOLERANCE
) -> Tensor:
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
    _rigid.check_rotation(_array(value, name), name=name, tolerance=tolerance)
    return value


def check_pose(value: Tensor, *, name: str = "pose", tolerance: float = TOLERANCE) -> Tensor:
    """Return `value` unchanged if it holds rigid motions; otherwise say what is wrong.

    Args:
        value: Tensor [..., 4, 4] of any floating type.
        name: What the message calls the value, for example ``"T_scene_gripper"``.
        tolerance: Largest allowed entry of |RᵀR - I| and error of the last row.

    Raises:
        GeometryError: Wrong shape or type, a value that is not finite, a last row that is not
            (0, 0, 0, 1), a rotation part that is not orthonormal, or a reflection.
    """
    _rigid.check_pose(_array(value, name), name=name, tolerance=tolerance)
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
    _rigid.check_pose(poses, name=name)
    return poses


def _array(value: Tensor, name: str) -> Float[np.ndarray, "..."]:
    """The numbers of a tensor of any floating type."""
    if not torch.is_floating_point(value):
        raise GeometryError(f"{name} has dtype {value.dtype}: need a real floating type.")
    return value.detach().cpu().double().numpy()
