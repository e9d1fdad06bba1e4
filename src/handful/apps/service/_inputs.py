"""Uploaded files become clouds, in a worker: what is hostile in them is met here."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped, UInt8
from PIL import Image

from handful._strict_json import Fields, parse_json
from handful.apps.service._jobs import Uploads
from handful.clouds import (
    Intrinsics,
    PointCloud,
    RgbdView,
    array_from_bytes,
    cloud_from_bytes,
    cloud_from_rgbd,
)
from handful.demos import numbers_from_json
from handful.errors import CloudShapeError, FileFormatError, OptionError, errors_at

MILLIMETRES = 0.001
MOST_VIEWS = 8
_IMAGE_ERRORS = (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError)


def uploaded_cloud(
    uploads: Uploads, blobs: Iterator[bytes], what: str, pose: str, max_points: int
) -> PointCloud | None:
    """The cloud of a cloud file, or of depth images; None if nothing was uploaded.

    Args:
        uploads: What there is.
        blobs: The files' bytes, in the order of `uploads`; those that are used are taken.
        what: Name of the upload, for messages: `scene` or `grasp`.
        pose: Name of the field that holds a camera's pose.
        max_points: More points are refused.

    Raises:
        HandfulError: It is no cloud; one sentence.
    """
    if not uploads.given:
        return None
    if uploads.cloud and (uploads.depth or uploads.color or uploads.cameras):
        raise OptionError(f"{what}: a cloud and images were given: give one of the two.")
    if uploads.cloud:
        with errors_at(what):
            return cloud_from_bytes(next(blobs), uploads.cloud, max_points=max_points)
    return cloud_from_rgbd(list(_views(uploads, blobs, what, pose, max_points)))


def _views(
    uploads: Uploads, blobs: Iterator[bytes], what: str, pose: str, max_points: int
) -> Iterator[RgbdView]:
    cameras = parse_json(uploads.cameras or "[]", f"{what} cameras")
    count = len(uploads.depth)
    if not isinstance(cameras, list) or len(cameras) != count or not 1 <= count <= MOST_VIEWS:
        known = len(cameras) if isinstance(cameras, list) else "no list of"
        raise OptionError(
            f"{what}: {count} depth images and {known} cameras: need as many of each, 1 to "
            f"{MOST_VIEWS}."
        )
    if len(uploads.color) not in (0, count):
        raise OptionError(
            f"{what}: {count} depth and {len(uploads.color)} colour images: need as many, or none."
        )
    depths = [next(blobs) for _ in uploads.depth]
    colors: list[bytes | None] = [next(blobs) for _ in uploads.color] or [None] * count
    for number, camera in enumerate(cameras):
        address = f"{what} camera {number}"
        intrinsics, T_scene_camera, scale = _camera(camera, address, pose)
        if count * intrinsics.width * intrinsics.height > max_points:
            raise OptionError(
                f"{address}: {count} images of {intrinsics.width} x {intrinsics.height} pixels: at "
                f"most {max_points} pixels in all."
            )
        with errors_at(address):
            depth = _depth(depths[number], uploads.depth[number], intrinsics, scale)
            image = colors[number]
            color = None if image is None else _color(image, uploads.color[number], intrinsics)
            yield RgbdView(depth, color, intrinsics, T_scene_camera)


def _camera(
    value: Any, address: str, pose: str
) -> tuple[Intrinsics, Float[np.ndarray, "4 4"], float | None]:
    """Intrinsics, pose and depth scale of a camera as the caller says them."""
    fields = Fields(value, address, OptionError)
    lens: tuple[float, ...] = ()
    if fields.has("distortion"):
        where = f"{address}: distortion [k1, k2, p1, p2, k3]"
        lens = tuple(numbers_from_json(fields.any("distortion"), (5,), where).tolist())
    with errors_at(address):
        intrinsics = Intrinsics(
            fx=fields.number("fx"),
            fy=fields.number("fy"),
            cx=fields.number("cx"),
            cy=fields.number("cy"),
            width=fields.integer("width"),
            height=fields.integer("height"),
            distortion=lens,
        )
    rows = fields.any(pose)
    try:
        matrix = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise OptionError(f"{address}: {pose}: need four rows of four numbers.") from error
    if matrix.shape != (4, 4):
        raise OptionError(f"{address}: {pose}: need four rows of four numbers.")
    scale = fields.number("depth_scale") if fields.has("depth_scale") else None
    fields.done()
    if scale is not None and not 0 < scale <= 10:
        raise OptionError(f"{address}: depth_scale is {scale}: need metres per unit, 0 to 10.")
    return intrinsics, matrix, scale


def _depth(
    content: bytes, name: str, intrinsics: Intrinsics, scale: float | None
) -> Float[np.ndarray, "height width"]:
    """A depth image in metres."""
    if content.startswith(b"\x93NUMPY"):
        values = array_from_bytes(content, name)
    else:
        values = _image(content, name, intrinsics, ("PNG",))
    sixteen_bits = values.dtype.kind == "u" and values.dtype.itemsize == 2
    if values.ndim != 2 or not (sixteen_bits or values.dtype.kind == "f"):
        raise CloudShapeError(
            f"{name}: depth is {values.dtype} {values.shape}: need one channel of 16-bit integers "
            "(PNG or NPY) or of floats (NPY)."
        )
    unit = scale if scale is not None else (1.0 if values.dtype.kind == "f" else MILLIMETRES)
    return values.astype(np.float64) * unit


def _color(
    content: bytes, name: str, intrinsics: Intrinsics
) -> UInt8[np.ndarray, "height width 3"]:
    if content.startswith(b"\x93NUMPY"):
        values = array_from_bytes(content, name)
    else:
        values = _image(content, name, intrinsics, ("PNG", "JPEG"), "RGB")
    if values.ndim != 3 or values.dtype != np.uint8 or values.shape[2] != 3:
        raise CloudShapeError(
            f"{name}: colour is {values.dtype} {values.shape}: need 8 bits of red, green and blue."
        )
    return values


def _image(
    content: bytes,
    name: str,
    intrinsics: Intrinsics,
    formats: tuple[str, ...],
    mode: str | None = None,
) -> Shaped[np.ndarray, "..."]:
    """The pixels of an image; its size is compared before anything is unpacked."""
    try:
        with Image.open(io.BytesIO(content), formats=formats) as image:
            if image.size != (intrinsics.width, intrinsics.height):
                raise FileFormatError(
                    f"{name}: is {image.size[0]} x {image.size[1]} pixels, and its camera says "
                    f"{intrinsics.width} x {intrinsics.height}."
                )
            return np.array(image if mode is None else image.convert(mode))
    except FileFormatError:
        raise
    except _IMAGE_ERRORS as error:
        raise FileFormatError(f"{name}: is no whole {' or '.join(formats)} image.") from error
