"""NPZ files: a zip of numpy arrays, of which only plain numbers are ever read.

numpy's own reader trusts an array's header with its memory and evaluates it as Python. Here both
the zip entry and the array header are checked against the bytes that are there first, and the
header is matched against the one form that it has.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Shaped, UInt8

from handful._files import StrPath
from handful.clouds.files._conventions import RawCloud, file_colors
from handful.clouds.files._source import Source, open_source, quoted
from handful.errors import HandfulError, UnsafeFileError

NPZ_ENCODINGS = {"binary": zipfile.ZIP_STORED, "binary_compressed": zipfile.ZIP_DEFLATED}

POINT_KEYS = ("points", "xyz", "positions")
COLOR_KEYS = ("colors", "rgb")
MAX_DEFLATE_EXPANSION = 1032
"""Bytes out per byte in that deflate can reach."""

MAX_ARRAY_HEADER = 4096
MAX_ARRAY_BYTES = 2**30
"""Larger arrays are refused: no cloud or list of poses takes as much."""

_NUMBER_TYPE = re.compile(r"[<>|=]?(?:f[248]|[iu][1248])")
_DESCR = re.compile(r"""['"]descr['"]\s*:\s*(?:['"]([^'"]*)['"]|\[)""")
_ORDER = re.compile(r"""['"]fortran_order['"]\s*:\s*(True|False)""")
_SHAPE = re.compile(r"""['"]shape['"]\s*:\s*\(([0-9,\s]*)\)""")
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
    KeyError,
    IndexError,
    OverflowError,
)


@dataclass(frozen=True)
class _ArrayHeader:
    """What an array says of itself.

    Attributes:
        dtype: Of its numbers.
        is_fortran: Whether the first index runs fastest.
        shape: Its lengths.
    """

    dtype: np.dtype[Any]
    is_fortran: bool
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes of the numbers."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npz(source: Source) -> RawCloud:
    """The arrays `points` (or `xyz`, `positions`) and `colors` (or `rgb`) of an NPZ file."""
    try:
        with zipfile.ZipFile(source.file) as archive:
            return _read_archive(source, archive)
    except HandfulError:
        raise
    except _ZIP_ERRORS as error:
        raise source.error(f"the zip archive is damaged: {quoted(str(error))}.") from error


def read_arrays(
    path: StrPath, prefixes: tuple[str, ...] = ("",)
) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Arrays of an NPZ file by name; objects are refused, and memory follows the file's size.

    Args:
        path: The file.
        prefixes: Arrays whose names begin otherwise are passed over, whatever they hold.
    """
    with open_source(path, max_points=MAX_ARRAY_BYTES) as source:
        try:
            with zipfile.ZipFile(source.file) as archive:
                return _read_all(source, archive, prefixes)
        except HandfulError:
            raise
        except _ZIP_ERRORS as error:
            raise source.error(f"the zip archive is damaged: {quoted(str(error))}.") from error


def array_from_bytes(content: bytes, name: str) -> Shaped[np.ndarray, "..."]:
    """The array of an NPY file; objects are refused, and memory follows the content's size.

    Args:
        content: All bytes of the file.
        name: Its name, for messages.
    """
    return _array_of(Source(name, io.BytesIO(content), len(content), MAX_ARRAY_BYTES))


def read_array(path: StrPath) -> Shaped[np.ndarray, "..."]:
    """The array of an NPY file; objects are refused, and memory follows the file's size."""
    with open_source(path, max_points=MAX_ARRAY_BYTES) as source:
        return _array_of(source)


def _array_of(source: Source) -> Shaped[np.ndarray, "..."]:
    header = _read_array_header(source, source.file.read, "the file")
    return _as_array(source.take(header.size, "the array"), header)


def _read_all(
    source: Source, archive: zipfile.ZipFile, prefixes: tuple[str, ...]
) -> dict[str, Shaped[np.ndarray, "..."]]:
    """The arrays, as long as they are not too large together: entries may share their bytes."""
    arrays, total = {}, 0
    entries = _entries(archive)
    for name, entry in entries.items():
        if name.startswith(prefixes):
            arrays[name] = _read_array(source, archive, entry)
            total += arrays[name].nbytes
            if total > MAX_ARRAY_BYTES:
                raise source.error(f"the arrays take more than {MAX_ARRAY_BYTES} bytes together.")
    if entries and not arrays:
        found = ", ".join(quoted(name) for name in list(entries)[:12])
        need = " or ".join(map(repr, prefixes))
        raise source.error(f"no array whose name begins with {need}; found {found}.")
    return arrays


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    return {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}


def _read_archive(source: Source, archive: zipfile.ZipFile) -> RawCloud:
    entries = _entries(archive)
    points = next((key for key in POINT_KEYS if key in entries), None)
    if points is None:
        found = ", ".join(quoted(name) for name in list(entries)[:12]) or "nothing"
        raise source.error(f"no array 'points' (or 'xyz', 'positions'); found {found}.")
    xyz = _read_array(source, archive, entries[points], (3,))
    colors = next((key for key in COLOR_KEYS if key in entries), None)
    if colors is None:
        return RawCloud(xyz, None)
    rgb = _read_array(source, archive, entries[colors], (3, 4))[:, :3]
    if len(rgb) != len(xyz):
        raise source.error(f"{len(xyz)} points and {len(rgb)} colours: need as many of each.")
    return RawCloud(xyz, file_colors(rgb))


def _read_array(
    source: Source,
    archive: zipfile.ZipFile,
    entry: zipfile.ZipInfo,
    widths: tuple[int, ...] | None = None,
) -> Shaped[np.ndarray, "..."]:
    """One array, of [n, one of `widths`]; nothing is read before its size is known to be honest."""
    name = quoted(entry.filename)
    if entry.compress_type not in NPZ_ENCODINGS.values() or entry.flag_bits & 1:
        raise source.error(f"{name} is encrypted or packed in an unusual way: need plain deflate.")
    with archive.open(entry) as file:
        header = _read_array_header(source, file.read, name)
        if widths is not None:
            if len(header.shape) != 2 or header.shape[1] not in widths:
                need = " or ".join(f"[n, {width}]" for width in widths)
                raise source.error(f"{name} has shape {list(header.shape)}: need {need}.")
            source.check_points(header.shape[0])
        if header.size > MAX_ARRAY_BYTES:
            raise source.error(f"{name} takes {header.size} bytes: at most {MAX_ARRAY_BYTES}.")
        room = min(entry.file_size, entry.compress_size * MAX_DEFLATE_EXPANSION)
        if entry.compress_size > source.size or header.size > room:
            raise source.error(
                f"{name} says that it holds {header.size} bytes, and its {entry.compress_size} "
                f"packed bytes cannot: the file is truncated or its header is wrong."
            )
        data = file.read(header.size)
    if len(data) != header.size:
        raise source.error(f"{name} holds {len(data)} bytes of {header.size}: it is truncated.")
    return _as_array(data, header)


def _as_array(data: bytes, header: _ArrayHeader) -> Shaped[np.ndarray, "..."]:
    order: Literal["F", "C"] = "F" if header.is_fortran else "C"
    return np.frombuffer(data, header.dtype).reshape(header.shape, order=order)


def _read_array_header(source: Source, read: Callable[[int], bytes], name: str) -> _ArrayHeader:
    start = read(8)
    if start[:6] != b"\x93NUMPY" or len(start) < 8 or start[6] not in (1, 2, 3):
        raise source.error(f"{name} is not a numpy array of version 1, 2 or 3.")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(read(width), "little")
    if length > MAX_ARRAY_HEADER:
        raise source.error(f"{name} has a header of {length} bytes: at most {MAX_ARRAY_HEADER}.")
    text = read(length).decode("latin-1")
    descr, order, shape = _DESCR.search(text), _ORDER.search(text), _SHAPE.search(text)
    if descr is None or order is None or shape is None:
        raise source.error(
            f"{name} has the header {quoted(text)}: need descr, fortran_order, shape."
        )
    return _ArrayHeader(
        _number_type(source, descr.group(1) or "a record", name),
        order.group(1) == "True",
        tuple(
            source.whole_number(word.strip(), f"the shape of {name}")
            for word in shape.group(1).split(",")
            if word.strip()
        ),
    )


def _number_type(source: Source, text: str, name: str) -> np.dtype[Any]:
    if "O" in text:
        raise UnsafeFileError(
            f"{source.path}: {name} holds pickled Python objects, which could run code when "
            "loaded; it was not read. Save plain numbers."
        )
    if not _NUMBER_TYPE.fullmatch(text):
        raise source.error(f"{name} is of type {quoted(text)}: need real numbers.")
    return np.dtype(text)


def encode_npz(
    points: Float[np.ndarray, "points 3"],
    colors: UInt8[np.ndarray, "points 3"] | None,
    encoding: str,
) -> bytes:
    """The bytes of an NPZ file with `points` and `colors`; the same arrays give the same bytes.

    Args:
        points: Positions [points, 3].
        colors: Colours [points, 3] or None.
        encoding: One of `NPZ_ENCODINGS`.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", NPZ_ENCODINGS[encoding]) as archive:
        for name, array in (("points", points), ("colors", colors)):
            if array is not None:
                buffer = io.BytesIO()
                np.lib.format.write_array(buffer, array, allow_pickle=False)
                entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
                entry.compress_type = NPZ_ENCODINGS[encoding]
                archive.writestr(entry, buffer.getvalue())
    return out.getvalue()
