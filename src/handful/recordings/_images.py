"""Images on disk: colour as PNG or JPEG, depth as 16-bit PNG or NPY."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped, UInt8
from PIL import Image

from handful._files import read_bytes
from handful.clouds import read_array
from handful.errors import FileFormatError

MAX_IMAGE_BYTES = 128 * 2**20
MAX_PIXELS = 2**24
"""Of an image; a depth image of as many takes 128 MiB in metres."""
NEAREST, FARTHEST = 0.05, 10.0
"""Metres: half of the pixels of a table in front of a camera are farther than the first and nearer
than the second; where they are not, the scale is wrong."""
BACKGROUND = 5.0
"""Metres: what is farther is no part of any table, and depth cameras do not know where it is."""

Size = tuple[int, int]
"""Columns and rows."""


def read_color(path: Path, size: Size) -> UInt8[np.ndarray, "height width 3"]:
    """A colour image, 8 bits a channel.

    Args:
        path: A PNG or JPEG file.
        size: Columns and rows that the camera's intrinsics say.

    Raises:
        FileFormatError: It is missing, of another kind or size, or damaged.
    """
    return decode_color(read_bytes(path, MAX_IMAGE_BYTES), size, str(path))


def decode_color(data: bytes, size: Size, where: str) -> UInt8[np.ndarray, "height width 3"]:
    """The same for the bytes of such a file; `where` is for messages."""
    image = _opened(data, where, ("PNG", "JPEG"))
    _check_size(image.size, size, where)
    if image.mode not in ("RGB", "RGBA", "L", "P"):
        raise FileFormatError(
            f"{where}: has pixels of the kind {image.mode}: need 8 bits of red, green and blue."
        )
    return np.array(_pixels(image.convert, where, "RGB"), dtype=np.uint8)


def read_depth(path: Path, size: Size, scale: float | None) -> Float[np.ndarray, "height width"]:
    """A depth image in metres; 0 where nothing was seen, and where it is farther than any table.

    Args:
        path: A 16-bit PNG file, or an NPY file: floats in metres, or whole numbers as in a PNG.
        size: Columns and rows that the camera's intrinsics say.
        scale: Metres per unit of whole numbers; None where it was not given.

    Raises:
        FileFormatError: It is missing, of another kind or size, damaged, or not in metres.
    """
    if path.suffix.lower() == ".npy":
        return depth_in_metres(read_array(path), size, scale, str(path))
    return decode_depth(read_bytes(path, MAX_IMAGE_BYTES), size, scale, str(path))


def decode_depth(
    data: bytes, size: Size, scale: float | None, where: str
) -> Float[np.ndarray, "height width"]:
    """The same for the bytes of a PNG file."""
    image = _opened(data, where, ("PNG",))
    _check_size(image.size, size, where)
    if image.mode not in ("I;16", "I;16B", "I"):
        raise FileFormatError(
            f"{where}: has pixels of the kind {image.mode}, a picture of depth for people: need "
            "one channel of 16 bits, or an NPY file of floats in metres."
        )
    return depth_in_metres(_pixels(np.array, where, image), size, scale, where)


def depth_in_metres(
    raw: Shaped[np.ndarray, "..."], size: Size, scale: float | None, where: str
) -> Float[np.ndarray, "height width"]:
    """Depth in metres from an array as cameras give it; see `read_depth`."""
    if raw.ndim != 2:
        raise FileFormatError(f"{where}: has shape {list(raw.shape)}: need [rows, columns].")
    _check_size(raw.shape[::-1], size, where)
    whole = raw.dtype.kind in "iu"
    if whole and scale is None:
        raise FileFormatError(
            f"{where}: holds whole numbers, and nothing says how long one is: give the camera a "
            "depth_scale in metres per unit, for example 0.001 for millimetres."
        )
    depth = raw.astype(np.float64) * (scale if whole and scale is not None else 1.0)
    seen = np.isfinite(depth) & (depth > 0)
    if seen.any():
        middle = float(np.median(depth[seen]))
        if not NEAREST <= middle <= FARTHEST:
            told = f"depth_scale {scale:g}" if whole and scale is not None else "floats as metres"
            raise FileFormatError(
                f"{where}: half of its pixels are nearer than {middle:.4g} m, with {told}: no "
                "camera stands so far from a table, or so near. Check the depth's unit; millimetres"
                " are depth_scale 0.001."
            )
    return np.where(seen & (depth <= BACKGROUND), depth, 0.0)


def _opened(data: bytes, where: str, formats: tuple[str, ...]) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data), formats=formats)
    except Image.DecompressionBombError as error:
        raise FileFormatError(f"{where}: {error}") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombWarning) as error:
        kinds = " or ".join(formats)
        raise FileFormatError(f"{where}: is not a readable {kinds} image.") from error


def _pixels(read: Any, where: str, *arguments: Any) -> Any:
    """What `read` gives, which decodes the image."""
    try:
        return read(*arguments)
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise FileFormatError(f"{where}: the image is damaged or cut off: {error}.") from error


def _check_size(found: tuple[int, ...], needed: Size, where: str) -> None:
    if needed[0] * needed[1] > MAX_PIXELS:
        raise FileFormatError(
            f"{where}: its camera's intrinsics are for {needed[0]} x {needed[1]} pixels: at most "
            f"{MAX_PIXELS} in all."
        )
    if tuple(found) != needed:
        raise FileFormatError(
            f"{where}: is {found[0]} x {found[1]} pixels, and its camera's intrinsics are for "
            f"{needed[0]} x {needed[1]}: save images as they were calibrated, not resized."
        )
