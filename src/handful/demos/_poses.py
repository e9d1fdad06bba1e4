"""Poses as people write them: a 4x4 matrix, or a position and a rotation that says what it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from handful._rigid import poses_from_wxyz_xyz
from handful._strict_json import Fields
from handful.errors import DemoError

QUATERNION_ORDERS = {"quat_wxyz": (0, 1, 2, 3), "quat_xyzw": (3, 0, 1, 2)}
"""Name of an order, and where w, x, y, z stand in it."""

ROTATIONS = (*QUATERNION_ORDERS, "rotvec_rad", "rpy_deg", "rpy_rad")
"""Names of the ways to write a rotation; each says its order and unit."""

UNIT_TOLERANCE = 1e-2


def pose_matrix(
    position: Any, quaternion: Any, order: str, address: str
) -> Float[np.ndarray, "4 4"]:
    """T_scene_gripper from a position and a quaternion.

    Args:
        position: x, y, z in metres.
        quaternion: Four numbers of length one (within 1%, to allow for rounding).
        order: `quat_wxyz` or `quat_xyzw`.
        address: File and field, for the message.

    Raises:
        DemoError: The numbers are not a pose.
    """
    row = _wxyz_xyz(position, quaternion, order, address)
    return poses_from_wxyz_xyz(row)


def pose_from_json(value: Any, address: str) -> Float[np.ndarray, "4 4"]:
    """A pose from JSON: 4 rows of 4 numbers, or an object with `position` and a rotation.

    The rotation is one of `quat_wxyz`, `quat_xyzw`, `rotvec_rad` (axis times angle, radians) and
    `rpy_deg` or `rpy_rad` (roll, pitch and yaw about the fixed axes x, y and z).
    """
    return poses_from_json([(address, value)])[0]


def poses_from_json(items: Sequence[tuple[str, Any]]) -> Float[np.ndarray, "poses 4 4"]:
    """Poses from JSON, each as for `pose_from_json`; those with quaternions are turned together.

    Args:
        items: Each with its address.
    """
    poses = np.zeros((len(items), 4, 4))
    turned: dict[int, Float[np.ndarray, "7"]] = {}
    for index, (address, value) in enumerate(items):
        if isinstance(value, list):
            poses[index] = numbers_from_json(value, (4, 4), address)
            continue
        fields = Fields(value, address, DemoError)
        position = fields.any("position")
        kind = fields.choose(ROTATIONS)
        rotation = fields.any(kind)
        fields.done()
        if kind in QUATERNION_ORDERS:
            turned[index] = _wxyz_xyz(position, rotation, kind, address)
        else:
            poses[index] = np.eye(4)
            poses[index, :3, 3] = numbers_from_json(position, (3,), f"{address}: position")
            poses[index, :3, :3] = _rotation_of_angles(rotation, kind, f"{address}: {kind}")
    if turned:
        poses[list(turned)] = poses_from_wxyz_xyz(np.stack(list(turned.values())))
    return poses


def _wxyz_xyz(position: Any, quaternion: Any, order: str, address: str) -> Float[np.ndarray, "7"]:
    """Quaternion, of length one and in the order wxyz, and position."""
    xyz = numbers_from_json(position, (3,), f"{address}: position")
    quat = numbers_from_json(quaternion, (4,), f"{address}: {order}")
    length = float(np.linalg.norm(quat))
    if abs(length - 1.0) > UNIT_TOLERANCE:
        raise DemoError(
            f"{address}: {order} {quat.tolist()} has length {length:.4g}: need 1. "
            "Four numbers in the order of the field's name."
        )
    return np.concatenate([(quat / length)[list(QUATERNION_ORDERS[order])], xyz])


def _rotation_of_angles(value: Any, kind: str, address: str) -> Float[np.ndarray, "3 3"]:
    angles = numbers_from_json(value, (3,), address)
    if kind == "rpy_deg":
        return Rotation.from_euler("xyz", angles, degrees=True).as_matrix()
    if np.abs(angles).max() > 2.0 * np.pi + UNIT_TOLERANCE:
        raise DemoError(
            f"{address}: {angles.tolist()} turns by {np.abs(angles).max():.4g} radians: need at "
            "most 6.283. Give radians, not degrees."
        )
    if kind == "rpy_rad":
        return Rotation.from_euler("xyz", angles).as_matrix()
    return Rotation.from_rotvec(angles).as_matrix()


def numbers_from_json(value: Any, shape: tuple[int, ...], address: str) -> Float[np.ndarray, "..."]:
    """The value as finite float64 numbers of that shape; text that looks like numbers is none."""
    try:
        array = np.array(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise DemoError(f"{address}: not numbers: need shape {list(shape)}.") from error
    if array.dtype.kind not in "fiu":
        found = repr(value)
        found = found if len(found) <= 100 else found[:97] + "..."
        raise DemoError(f"{address}: {found} is not numbers: need shape {list(shape)}.")
    if array.shape != shape:
        raise DemoError(f"{address}: has shape {list(array.shape)}: need {list(shape)}.")
    if not np.isfinite(array).all():
        raise DemoError(f"{address}: {array.tolist()} holds NaN or infinity.")
    return array.astype(np.float64)
