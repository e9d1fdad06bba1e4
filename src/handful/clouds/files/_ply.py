"""PLY files (Stanford polygon format): the vertices of any, written with or without colours."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, UInt8

from handful.clouds.files._conventions import RawCloud, raw_cloud
from handful.clouds.files._ply_header import BYTE_ORDERS, PlyHeader, read_ply_header
from handful.clouds.files._ply_lists import list_row_columns, list_row_scalars, skip_elements
from handful.clouds.files._source import Source
from handful.clouds.files._table import (
    Columns,
    as_declared,
    binary_rows,
    record_columns,
    row_bytes,
    text_columns,
    text_rows,
)

PLY_ENCODINGS = {
    "binary": "binary_little_endian",
    "binary_big_endian": "binary_big_endian",
    "ascii": "ascii",
}
"""Our names for encodings, and PLY's."""


def read_ply(source: Source) -> RawCloud:
    """The vertices of a PLY file; elements after them are not even looked at."""
    header = read_ply_header(source)
    skip_elements(source, header)
    read = _text_vertices if header.is_text else _binary_vertices
    return raw_cloud(read(source, header))


def _binary_vertices(source: Source, header: PlyHeader) -> Columns:
    vertex = header.vertex
    size = row_bytes(source, vertex.scalars)
    if vertex.has_lists:
        data: bytes | bytearray = list_row_scalars(source, vertex, header.byte_order)
    else:
        source.check_rows(vertex.count, size, "vertex")
        data = source.take(vertex.count * size, "vertex rows")
    return record_columns(data, vertex.scalars)


def _text_vertices(source: Source, header: PlyHeader) -> Columns:
    vertex = header.vertex
    if vertex.has_lists:
        columns = list_row_columns(source, vertex)
    else:
        columns = text_columns(source, vertex.scalars, vertex.count, "vertex")
    return as_declared(source, columns, vertex.scalars)


def encode_ply(
    points: Float[np.ndarray, "points 3"],
    colors: UInt8[np.ndarray, "points 3"] | None,
    encoding: str,
) -> bytes:
    """The bytes of a PLY file.

    Args:
        points: Positions [points, 3]; float32 becomes ``float``, float64 ``double``.
        colors: Colours [points, 3] or None.
        encoding: One of `PLY_ENCODINGS`.
    """
    kind = PLY_ENCODINGS[encoding]
    scalar = "float" if points.dtype.itemsize == 4 else "double"
    header = [
        "ply",
        f"format {kind} 1.0",
        "comment written by handful; metres",
        f"element vertex {len(points)}",
        *(f"property {scalar} {axis}" for axis in "xyz"),
    ]
    columns = list(points.T)
    if colors is not None:
        header += [f"property uchar {name}" for name in ("red", "green", "blue")]
        columns += list(colors.T)
    text = "\n".join([*header, "end_header", ""]).encode("ascii")
    rows = text_rows(columns) if kind == "ascii" else binary_rows(columns, BYTE_ORDERS[kind])
    return text + rows
