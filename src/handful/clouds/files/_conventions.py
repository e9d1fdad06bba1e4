"""How files name positions and colours, and what range their colours have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped, UInt8

from handful.clouds.files._source import Source, quoted

POSITION = ("x", "y", "z")
COLOR_TRIPLES = (
    ("red", "green", "blue"),
    ("diffuse_red", "diffuse_green", "diffuse_blue"),
    ("r", "g", "b"),
)
PACKED_COLORS = ("rgb", "rgba")
WANTED = frozenset(
    (*POSITION, *(name for names in COLOR_TRIPLES for name in names), *PACKED_COLORS)
)
"""Every other field of a file is passed over."""


class RawCloud(NamedTuple):
    """What a file holds, before `PointCloud` checks it.

    Attributes:
        points: Positions [points, 3] in the file's unit and number type.
        colors: uint8 in 0..255 or floats in [0, 1] [points, 3], or None.
    """

    points: Shaped[np.ndarray, "points 3"]
    colors: Shaped[np.ndarray, "points 3"] | None


def check_names(source: Source, names: Sequence[str], kind: str) -> None:
    """Refuse a table without x, y and z, or with two columns of one name.

    Args:
        source: For the message.
        names: Of all fields; ``_`` is padding and may come often.
        kind: What the format calls a field.
    """
    named = [name for name in names if name != "_"]
    commonest, times = Counter(named).most_common(1)[0] if named else ("", 0)
    if times > 1:
        raise source.error(f"{kind} {quoted(commonest)} is there {times} times: names must differ.")
    missing = [axis for axis in POSITION if axis not in named]
    if missing:
        found = ", ".join(quoted(name) for name in named[:12]) or "none"
        raise source.error(f"no {kind} {missing[0]!r}: need x, y and z; found {found}.")


def raw_cloud(columns: Mapping[str, Shaped[np.ndarray, "points"]]) -> RawCloud:
    """Positions and colours out of named columns; colours only when all three are there."""
    points = np.stack([columns[axis] for axis in POSITION], axis=1)
    for names in COLOR_TRIPLES:
        if all(name in columns for name in names):
            return RawCloud(points, file_colors(np.stack([columns[n] for n in names], axis=1)))
    return RawCloud(points, None)


def file_colors(colors: Shaped[np.ndarray, "points 3"]) -> Shaped[np.ndarray, "points 3"]:
    """Colours in a range that `PointCloud` knows.

    16-bit unsigned integers span 0..65535. Other integers are left alone (0..255). Floats are in
    [0, 1], except that whole numbers above 1 mean 0..255. What fits nowhere is left for
    `PointCloud` to refuse.
    """
    if colors.dtype.kind == "u" and colors.dtype.itemsize == 2:
        return colors / 65535.0
    if colors.dtype.kind != "f" or colors.size == 0:
        return colors
    known = colors[np.isfinite(colors)]
    highest = known.max(initial=0.0)
    if 1.0 < highest <= 255.0 and (known == np.rint(known)).all():
        return colors / 255.0
    return colors


def unpacked_colors(packed: Shaped[np.ndarray, "points"]) -> UInt8[np.ndarray, "points 3"]:
    """Red, green and blue out of 32 bits 0xAARRGGBB, whatever number type carries them."""
    bits = packed.astype(packed.dtype.newbyteorder("<")).view(np.uint8).reshape(-1, 4)
    return bits[:, 2::-1]


def packed_colors(colors: UInt8[np.ndarray, "points 3"]) -> Shaped[np.ndarray, "points"]:
    """The 32-bit integers 0x00RRGGBB of colours."""
    red, green, blue = colors.astype("<u4").T
    return (red << 16) | (green << 8) | blue


def disk_colors(colors: Float[np.ndarray, "points 3"]) -> UInt8[np.ndarray, "points 3"]:
    """Colours in [0, 1] as the nearest of 0..255; undoes reading exactly."""
    return np.rint(colors * 255.0).astype(np.uint8)
