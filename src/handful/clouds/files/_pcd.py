"""PCD files (Point Cloud Library): ascii, binary and compressed.

The viewpoint in the header is not used: positions are taken as they stand in the file.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Shaped, UInt8

from handful.clouds.files._conventions import (
    COLOR_TRIPLES,
    PACKED_COLORS,
    RawCloud,
    packed_colors,
    raw_cloud,
    unpacked_colors,
)
from handful.clouds.files._lzf import MAX_EXPANSION, LzfError, lzf_compress, lzf_decompress
from handful.clouds.files._pcd_header import PcdHeader, read_pcd_header
from handful.clouds.files._source import Source
from handful.clouds.files._table import (
    Columns,
    Field,
    as_declared,
    binary_rows,
    block_columns,
    record_columns,
    row_bytes,
    text_columns,
    text_rows,
)


def read_pcd(source: Source) -> RawCloud:
    """The points of a PCD file; an organised cloud becomes a plain list of points."""
    header = read_pcd_header(source)
    read = {"ascii": _text_points, "binary": _binary_points}.get(header.data, _compressed_points)
    return raw_cloud(_with_named_colors(source, read(source, header), header.fields))


def _binary_points(source: Source, header: PcdHeader) -> Columns:
    size = row_bytes(source, header.fields)
    source.check_rows(header.points, size, "point")
    return record_columns(source.take(header.points * size, "the points"), header.fields)


def _compressed_points(source: Source, header: PcdHeader) -> Columns:
    """All of one field, then all of the next, in one LZF stream with its two sizes before it.

    Both sizes are checked against the header and the file before any memory is asked for.
    """
    packed, plain = struct.unpack("<II", source.take(8, "the pair of compressed sizes"))
    expected = header.points * row_bytes(source, header.fields)
    if plain != expected:
        raise source.error(
            f"the compressed points say that they expand to {plain} bytes; {header.points} points "
            f"take {expected}: the header is wrong."
        )
    if packed > source.left or plain > packed * MAX_EXPANSION:
        raise source.error(
            f"{plain} bytes are said to come from {packed} compressed ones, and {source.left} "
            f"follow: the file is truncated or its header is wrong (a byte gives at most "
            f"{MAX_EXPANSION})."
        )
    try:
        data = lzf_decompress(source.take(packed, "the compressed points"), plain)
    except LzfError as error:
        raise source.error(f"the compressed points are damaged: {error}.") from error
    return block_columns(data, header.fields, header.points)


def _text_points(source: Source, header: PcdHeader) -> Columns:
    columns = dict(text_columns(source, header.fields, header.points, "point"))
    packed = {
        item.name: _colors_of_packed_text(columns.pop(item.name))
        for item in header.fields
        if item.name in PACKED_COLORS and item.dtype == np.float32 and item.count == 1
    }
    return {**as_declared(source, columns, header.fields), **packed}


def _colors_of_packed_text(values: Float[np.ndarray, "points"]) -> Float[np.ndarray, "points 3"]:
    """Colours in [0, 1] out of packed floats written as text.

    Two habits exist: the value of the float whose bits are the colour (tiny, or huge and negative
    with an opaque alpha), and the colour as an integer such as 4210752. Whole numbers from 1 up
    are the second: as bits they would need an alpha that nobody writes. NaN has lost the colour,
    so that point gets none and `PointCloud` drops it.
    """
    lost = np.isnan(values)
    known = values[~lost & (values != 0.0)]
    whole = (known >= 1.0) & (known < 2.0**32) & (known == np.rint(known))
    numbers = np.where(lost, 0.0, values).astype("<u4" if whole.all() else "<f4")
    colors = unpacked_colors(numbers) / 255.0
    colors[lost] = np.nan
    return colors


def _with_named_colors(source: Source, columns: Columns, fields: Sequence[Field]) -> Columns:
    """The columns with a packed colour taken apart, unless there are plain ones already."""
    named = {name: values for name, values in columns.items() if name not in PACKED_COLORS}
    has_triple = any(all(name in named for name in names) for names in COLOR_TRIPLES)
    packed = [item for item in fields if item.name in PACKED_COLORS]
    if has_triple or not packed:
        return named
    colors = _taken_apart(source, packed[0], columns[packed[0].name])
    return {**named, **dict(zip(COLOR_TRIPLES[0], colors.T, strict=True))}


def _taken_apart(
    source: Source, item: Field, values: Shaped[np.ndarray, "points *count"]
) -> Shaped[np.ndarray, "points 3"]:
    if values.ndim == 2 and values.shape[1] == 3:
        return values
    if item.size != 4 or item.count != 1:
        raise source.error(
            f"field {item.name!r} has TYPE {item.dtype.kind.upper()}, SIZE {item.dtype.itemsize} "
            f"and COUNT {item.count}: need four bytes with COUNT 1, or COUNT 3."
        )
    return unpacked_colors(values)


def encode_pcd(
    points: Float[np.ndarray, "points 3"],
    colors: UInt8[np.ndarray, "points 3"] | None,
    encoding: str,
) -> bytes:
    """The bytes of a PCD file.

    Packed colours are of type F in binary files and of type U in text, as PCL writes them.

    Args:
        points: Positions [points, 3], float32 or float64.
        colors: Colours [points, 3] or None.
        encoding: One of `PCD_ENCODINGS`.
    """
    columns = [*points.T]
    names, sizes, types = ["x", "y", "z"], [points.dtype.itemsize] * 3, ["F"] * 3
    if colors is not None:
        columns.append(packed_colors(colors))
        names, sizes = [*names, "rgb"], [*sizes, 4]
        types.append("U" if encoding == "ascii" else "F")
    header = (
        "# .PCD v0.7 - Point Cloud Data file format\n"
        "VERSION 0.7\n"
        f"FIELDS {' '.join(names)}\n"
        f"SIZE {' '.join(map(str, sizes))}\n"
        f"TYPE {' '.join(types)}\n"
        f"COUNT {' '.join('1' * len(names))}\n"
        f"WIDTH {len(points)}\n"
        "HEIGHT 1\n"
        "VIEWPOINT 0 0 0 1 0 0 0\n"
        f"POINTS {len(points)}\n"
        f"DATA {encoding}\n"
    ).encode("ascii")
    if encoding == "ascii":
        return header + text_rows(columns)
    if encoding == "binary":
        return header + binary_rows(columns, "<")
    plain = b"".join(column.astype(column.dtype.newbyteorder("<")).tobytes() for column in columns)
    packed = lzf_compress(plain)
    return header + struct.pack("<II", len(packed), len(plain)) + packed
