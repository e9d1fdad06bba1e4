"""Messages of ROS to numbers: clouds, images, camera infos, transforms, gripper signals.

Messages are read by their fields, so that those of ROS 1 and ROS 2 are alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Shaped, UInt8
from scipy.spatial.transform import Rotation

from handful.clouds import Intrinsics, PointCloud
from handful.errors import DemoError, FileFormatError
from handful.recordings._images import decode_color, decode_depth, depth_in_metres
from handful.recordings._tracks import Pose

MILLIMETRE = 0.001
"""Metres per unit of whole-number depth images (REP 118)."""
COMPRESSED_DEPTH_HEADER = 12
"""Bytes before the PNG in a `compressedDepth` image."""

_COLORS = {
    "rgb8": (3, (0, 1, 2)), "bgr8": (3, (2, 1, 0)), "rgba8": (4, (0, 1, 2)),
    "bgra8": (4, (2, 1, 0)), "mono8": (1, (0, 0, 0)),
}  # fmt: skip
_DEPTHS = {"16UC1": "u2", "mono16": "u2", "32FC1": "f4"}
_FIELD_KINDS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}
_DISTORTIONS = ("plumb_bob", "rational_polynomial", "none", "")


def seconds(stamp: Any) -> float:
    """A time stamp in seconds."""
    nanoseconds = getattr(stamp, "nanosec", None)
    return float(stamp.sec) + 1e-9 * float(stamp.nsec if nanoseconds is None else nanoseconds)


def pose_of(transform: Any, where: str) -> Pose:
    """A geometry_msgs/Transform as a matrix."""
    q, v = transform.rotation, transform.translation
    quat = np.array([q.x, q.y, q.z, q.w], dtype=np.float64)
    pose = np.eye(4)
    pose[:3, 3] = v.x, v.y, v.z
    length = float(np.linalg.norm(quat))
    if not (np.isfinite(pose).all() and abs(length - 1.0) < 1e-2):
        raise DemoError(f"{where}: is no pose: its quaternion has length {length:.4g}, need 1.")
    pose[:3, :3] = Rotation.from_quat(quat).as_matrix()
    return pose


def intrinsics_of(info: Any, where: str) -> Intrinsics:
    """A sensor_msgs/CameraInfo."""
    matrix = np.asarray(info.K if hasattr(info, "K") else info.k, dtype=np.float64).reshape(3, 3)
    lens = np.asarray(info.D if hasattr(info, "D") else info.d, dtype=np.float64)
    model = str(info.distortion_model)
    if lens.any() and (model not in _DISTORTIONS or len(lens) < 4 or lens[5:].any()):
        raise DemoError(
            f"{where}: has the lens {model!r} with {lens.tolist()}: need plumb_bob, k1, k2, p1, p2 "
            "and k3. Record the rectified images instead."
        )
    five = tuple(np.concatenate([lens[:5], np.zeros(max(0, 5 - len(lens)))]).tolist())
    return Intrinsics(
        float(matrix[0, 0]), float(matrix[1, 1]), float(matrix[0, 2]), float(matrix[1, 2]),
        int(info.width), int(info.height), five if lens.any() else (),
    )  # fmt: skip


def color_of(message: Any, size: tuple[int, int], where: str) -> UInt8[np.ndarray, "h w 3"]:
    """A colour image, raw or compressed; `size` is columns and rows."""
    if hasattr(message, "format"):
        return decode_color(bytes(message.data), size, where)
    if message.encoding not in _COLORS:
        raise FileFormatError(
            f"{where}: has the encoding {message.encoding!r}: need one of {', '.join(_COLORS)}."
        )
    channels, order = _COLORS[message.encoding]
    pixels = _pixels(message, np.dtype("u1"), channels, size, where)
    return np.ascontiguousarray(pixels[:, :, list(order)])


def depth_of(message: Any, size: tuple[int, int], where: str) -> Float[np.ndarray, "h w"]:
    """A depth image in metres, raw or compressed."""
    if hasattr(message, "format"):
        data = bytes(message.data)
        if "compressedDepth" in message.format:
            if "32FC1" in message.format:
                raise FileFormatError(
                    f"{where}: has quantised 32FC1 depth: record 16UC1 or raw images."
                )
            data = data[COMPRESSED_DEPTH_HEADER:]
        return decode_depth(data, size, MILLIMETRE, where)
    if message.encoding not in _DEPTHS:
        raise FileFormatError(
            f"{where}: has the encoding {message.encoding!r}: need one of {', '.join(_DEPTHS)}."
        )
    kind = np.dtype(_DEPTHS[message.encoding])
    raw = _pixels(message, kind, 1, size, where)[:, :, 0]
    return depth_in_metres(raw, size, MILLIMETRE, where)


def cloud_of(message: Any, where: str) -> PointCloud:
    """A sensor_msgs/PointCloud2, in its own frame; NaN points are left out."""
    order = ">" if message.is_bigendian else "<"
    fields = {}
    for field in message.fields:
        if field.datatype not in _FIELD_KINDS:
            raise FileFormatError(f"{where}: field {field.name!r} has the type {field.datatype}.")
        fields[field.name] = (order + _FIELD_KINDS[field.datatype], int(field.offset))
    missing = [name for name in ("x", "y", "z") if name not in fields]
    if missing:
        raise FileFormatError(f"{where}: the cloud has no field {missing[0]!r}.")
    wanted = [name for name in ("x", "y", "z", "rgb", "rgba") if name in fields]
    step, row = int(message.point_step), int(message.row_step)
    kind = np.dtype(
        {
            "names": wanted,
            "formats": [fields[name][0] for name in wanted],
            "offsets": [fields[name][1] for name in wanted],
            "itemsize": step,
        }
    )
    data = np.frombuffer(bytes(message.data), np.uint8)
    height, width = int(message.height), int(message.width)
    if len(data) < row * height or row < step * width or height * width == 0:
        raise FileFormatError(
            f"{where}: {len(data)} bytes for {height} rows of {width} points of {step} bytes."
        )
    rows = data[: row * height].reshape(height, row)[:, : step * width]
    points = np.ascontiguousarray(rows).view(kind).reshape(-1)
    xyz = np.stack([points[name].astype(np.float64) for name in ("x", "y", "z")], axis=1)
    xyz[~np.isfinite(xyz).all(axis=1)] = np.nan
    packed = next((name for name in ("rgb", "rgba") if name in wanted), None)
    if packed is None or kind[packed].itemsize != 4:
        return PointCloud(xyz)
    bits = np.ascontiguousarray(points[packed]).view(order + "u4")
    colors = np.stack([(bits >> shift) & 255 for shift in (16, 8, 0)], axis=1).astype(np.uint8)
    return PointCloud(xyz, colors)


def signal_of(message: Any, joint: str, where: str) -> float | None:
    """The gripper's signal in a message; None if a JointState does not name the joint."""
    if hasattr(message, "position") and hasattr(message, "name"):
        names = list(message.name)
        return float(message.position[names.index(joint)]) if joint in names else None
    value = getattr(message, "data", None)
    if not isinstance(value, (bool, int, float, np.bool_, np.number)):
        raise DemoError(
            f"{where}: is neither a JointState nor a message with one number or flag as `data`."
        )
    return float(value)


def _pixels(
    message: Any, kind: np.dtype[Any], channels: int, size: tuple[int, int], where: str
) -> Shaped[np.ndarray, "h w channels"]:
    """The pixels of a raw image, rows without their padding."""
    if (message.width, message.height) != size:
        raise FileFormatError(
            f"{where}: is {message.width} x {message.height} pixels, and its camera info is for "
            f"{size[0]} x {size[1]}."
        )
    data = np.frombuffer(bytes(message.data), np.uint8)
    used = message.width * channels * kind.itemsize
    if message.step < used or len(data) < message.step * message.height:
        raise FileFormatError(f"{where}: {len(data)} bytes are too few for its size.")
    rows = data[: message.step * message.height].reshape(message.height, message.step)[:, :used]
    pixels = np.ascontiguousarray(rows).view(
        kind.newbyteorder(">" if message.is_bigendian else "<")
    )
    return pixels.reshape(message.height, message.width, channels)
