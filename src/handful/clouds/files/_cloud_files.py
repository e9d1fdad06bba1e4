"""`read_cloud` and `write_cloud`: the one door to cloud files, by the extension of their name."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from handful._checks import MAX_DERIVED_SEED, check_scale, path_of, whole_number
from handful._files import StrPath, atomic_write_bytes
from handful.clouds._cloud import PointCloud, check_dtype
from handful.clouds.files._conventions import RawCloud, disk_colors
from handful.clouds.files._npz import NPZ_ENCODINGS, encode_npz, read_npz
from handful.clouds.files._pcd import encode_pcd, read_pcd
from handful.clouds.files._pcd_header import PCD_ENCODINGS
from handful.clouds.files._ply import PLY_ENCODINGS, encode_ply, read_ply
from handful.clouds.files._source import Source, open_source
from handful.errors import FileFormatError, OptionError, errors_at, unknown_name_message


@dataclass(frozen=True)
class _Format:
    """A file format.

    Attributes:
        magic: What a file may start with.
        read: Reads what follows.
        encode: Makes a file's bytes of points, uint8 colours and an encoding.
        encodings: That `encode` knows.
    """

    magic: tuple[bytes, ...]
    read: Callable[[Source], RawCloud]
    encode: Callable[[np.ndarray, np.ndarray | None, str], bytes]
    encodings: Iterable[str]


_FORMATS = {
    ".ply": _Format((b"ply\n", b"ply\r"), read_ply, encode_ply, PLY_ENCODINGS),
    ".pcd": _Format((b"#", b"VERSION", b"FIELDS", b"COLUMNS"), read_pcd, encode_pcd, PCD_ENCODINGS),
    ".npz": _Format((b"PK\x03\x04", b"PK\x05\x06"), read_npz, encode_npz, NPZ_ENCODINGS),
}


def read_cloud(
    path: StrPath,
    *,
    scale: float = 1.0,
    max_points: int = 20_000_000,
    dtype: type[np.floating[Any]] = np.float32,
) -> PointCloud:
    """Read a PLY, PCD or NPZ file.

    Other fields and elements (normals, intensity, faces) are passed over. Colours may be 8-bit or
    16-bit integers, floats, or packed in one number; without them the cloud has none. Rows with
    NaN are dropped and counted. A header is believed only as far as the file's size bears it out,
    so that no file, however made, takes more memory than its size and `max_points` justify.

    Args:
        path: The file; ``.ply``, ``.pcd`` or ``.npz``.
        scale: Metres per unit of the file, for example 0.001 for millimetres.
        max_points: Files with more points are refused.
        dtype: `np.float32` or `np.float64`.

    Raises:
        FileFormatError: The file cannot be opened, is malformed or truncated, or is too large.
        CloudError: What it holds is no usable cloud, for example not in metres.
        OptionError: `scale`, `max_points` or `dtype` is out of range.
    """
    name = str(path_of("path", path))
    _check_options(scale, max_points, dtype)
    kind = _format_of(name)
    with open_source(name, max_points) as source:
        return _read(source, kind, scale, dtype)


def cloud_from_bytes(
    content: bytes, name: str, *, max_points: int = 20_000_000, scale: float = 1.0
) -> PointCloud:
    """Read the content of a PLY, PCD or NPZ file, with the same suspicion as `read_cloud`.

    Args:
        content: All bytes of the file.
        name: Its name, for messages. Without one of the extensions the first bytes tell the format.
        max_points: Clouds with more points are refused.
        scale: Metres per unit of the file.

    Raises:
        HandfulError: As for `read_cloud`.
    """
    _check_options(scale, max_points, np.float32)
    source = Source(name, io.BytesIO(content), len(content), max_points)
    begins = [one for one in _FORMATS.values() if content.startswith(one.magic)]
    known = os.path.splitext(name)[1].lower() in _FORMATS
    kind = begins[0] if begins and not known else _format_of(name)
    return _read(source, kind, scale, np.float32)


def _read(source: Source, kind: _Format, scale: float, dtype: type[np.floating[Any]]) -> PointCloud:
    with np.errstate(all="ignore"):
        _check_magic(source, kind)
        raw = kind.read(source)
        points = raw.points if scale == 1.0 else raw.points.astype(np.float64) * scale
        with errors_at(source.path):
            return PointCloud(points, raw.colors, dtype=dtype)


def write_cloud(cloud: PointCloud, path: StrPath, *, encoding: str = "binary") -> None:
    """Write a PLY, PCD or NPZ file, in one step: a reader sees all of it or nothing.

    Positions keep every bit (float32 or float64), in ascii too. Colours become 8-bit integers.
    The same cloud gives the same bytes.

    Args:
        cloud: The cloud.
        path: The file; ``.ply``, ``.pcd`` or ``.npz``.
        encoding: ``binary`` for any; PLY has ``binary_big_endian`` and ``ascii`` too, PCD
            ``binary_compressed`` and ``ascii``, NPZ ``binary_compressed``.

    Raises:
        FileFormatError: The extension is unknown, or the file cannot be written.
        OptionError: The format has no such encoding.
    """
    name = os.fspath(path)
    kind = _format_of(name)
    if encoding not in kind.encodings:
        what = f"encoding of {os.path.splitext(name)[1]} files"
        raise OptionError(unknown_name_message(what, encoding, kind.encodings))
    colors = None if cloud.colors is None else disk_colors(cloud.colors)
    atomic_write_bytes(name, kind.encode(cloud.points, colors, encoding))


def _check_options(scale: float, max_points: int, dtype: type[np.floating[Any]]) -> None:
    check_scale(scale)
    whole_number("max_points", max_points, 1, MAX_DERIVED_SEED)
    check_dtype(dtype)


def _format_of(name: str) -> _Format:
    extension = os.path.splitext(name)[1]
    kind = _FORMATS.get(extension.lower())
    if kind is None:
        raise FileFormatError(
            f"{name}: the extension {extension!r} is not one of a cloud file: need "
            f"{', '.join(_FORMATS)}."
        )
    return kind


def _check_magic(source: Source, kind: _Format) -> None:
    """Refuse a file that does not start as its extension promises, and say what it looks like."""
    start = source.file.read(8)
    source.file.seek(0)
    if start.startswith(kind.magic):
        return
    if not start:
        raise source.error("the file is empty.")
    for extension, other in _FORMATS.items():
        if start.startswith(other.magic):
            raise source.error(f"the file starts like a {extension} file: rename it to that.")
    raise source.error(
        f"the file starts with {start!r}: need one of "
        f"{', '.join(repr(word) for word in kind.magic)}."
    )
