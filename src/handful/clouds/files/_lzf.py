"""LZF, the byte compression inside compressed PCD files.

A stream is a row of two kinds of pieces, told apart by the first byte c:

- c < 32: the next c + 1 bytes stand for themselves;
- otherwise: copy length + 2 bytes from `distance` bytes back, where length = c >> 5 (if that is 7,
  plus the next byte) and distance = 256 (c & 31) + the next byte + 1. The copy may run into the
  bytes that it makes itself.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

MAX_LITERAL = 32
MAX_COPY = 264
MIN_COPY = 3
MAX_DISTANCE = 8192
MAX_EXPANSION = 88
"""Bytes out per byte in, at most: a copy of 264 bytes takes three."""

_BLOCK = 1 << 20
"""Bytes searched for repeats at a time; bounds the memory of the index arrays."""


class LzfError(ValueError):
    """A stream is damaged; the message says how."""


def lzf_decompress(data: bytes, size: int) -> bytes:
    """The `size` bytes that a stream stands for.

    Memory stays near `size`, which the caller has checked (see `MAX_EXPANSION`).

    Raises:
        LzfError: The stream is damaged or stands for another number of bytes.
    """
    out = bytearray()
    position, end = 0, len(data)
    try:
        while position < end:
            control = data[position]
            position += 1
            if control < MAX_LITERAL:
                stop = position + control + 1
                if stop > end:
                    raise LzfError(f"a run of {control + 1} plain bytes passes the end")
                out += data[position:stop]
                position = stop
            else:
                length = (control >> 5) + 2
                if length == 9:
                    length += data[position]
                    position += 1
                distance = ((control & 31) << 8) + data[position] + 1
                position += 1
                _copy_back(out, distance, length)
            if len(out) > size:
                raise LzfError(f"it expands to more than {size} bytes")
    except IndexError:
        raise LzfError("it ends in the middle of a back-reference") from None
    if len(out) != size:
        raise LzfError(f"it expands to {len(out)} bytes instead of {size}")
    return bytes(out)


def _copy_back(out: bytearray, distance: int, length: int) -> None:
    start = len(out) - distance
    if start < 0:
        raise LzfError(f"a back-reference of {distance} bytes after {len(out)} bytes")
    if distance >= length:
        out += out[start : start + length]
    else:
        repeats = -(-length // distance)
        out += (out[start:] * repeats)[:length]


def lzf_compress(data: bytes) -> bytes:
    """A stream that stands for `data`; at most a thirty-second longer, and often shorter."""
    out = bytearray()
    plain_from = position = 0
    for start in range(0, len(data), _BLOCK):
        stop = min(start + _BLOCK, len(data))
        repeats, earlier = _repeats(data, start, stop)
        for here, there in zip(repeats.tolist(), earlier.tolist(), strict=True):
            if here < position:
                continue
            length = _match_length(data, there, here)
            _put_plain(out, data, plain_from, here)
            _put_copy(out, here - there - 1, length - 2)
            plain_from = position = here + length
    _put_plain(out, data, plain_from, len(data))
    return bytes(out)


def _repeats(
    data: bytes, start: int, stop: int
) -> tuple[Int[np.ndarray, "found"], Int[np.ndarray, "found"]]:
    """Places from `start` to `stop` whose three bytes came within reach before, and where."""
    low = max(start - MAX_DISTANCE, 0)
    piece = np.frombuffer(data, np.uint8, min(stop + MIN_COPY - 1, len(data)) - low, low)
    if len(piece) < MIN_COPY:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    wide = piece.astype(np.int32)
    triple = wide[:-2] << 16 | wide[1:-1] << 8 | wide[2:]
    order = np.argsort(triple, kind="stable")
    earlier, later = order[:-1], order[1:]
    found = (triple[earlier] == triple[later]) & (later - earlier <= MAX_DISTANCE)
    found &= later >= start - low
    earlier, later = earlier[found], later[found]
    by_place = np.argsort(later)
    return later[by_place] + low, earlier[by_place] + low


def _match_length(data: bytes, there: int, here: int) -> int:
    longest = min(MAX_COPY, len(data) - here)
    length = MIN_COPY
    while length < longest and data[there + length] == data[here + length]:
        length += 1
    return length


def _put_plain(out: bytearray, data: bytes, start: int, stop: int) -> None:
    for first in range(start, stop, MAX_LITERAL):
        piece = data[first : min(first + MAX_LITERAL, stop)]
        out.append(len(piece) - 1)
        out += piece


def _put_copy(out: bytearray, offset: int, length: int) -> None:
    if length < 7:
        out.append((length << 5) | (offset >> 8))
    else:
        out.append((7 << 5) | (offset >> 8))
        out.append(length - 7)
    out.append(offset & 255)
