"""Tables of named, typed columns: binary records and lines of numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from handful.clouds.files._conventions import WANTED
from handful.clouds.files._source import MAX_LINE_BYTES, Source, as_text, quoted
from handful.errors import FileFormatError

MAX_ROW_BYTES = 1024 * 1024
"""No point carries this much; it keeps record sizes far from numpy's limits."""

Columns = Mapping[str, Shaped[np.ndarray, "points *count"]]


@dataclass(frozen=True)
class Field:
    """One named field of a row.

    Attributes:
        name: As the file spells it.
        dtype: With the byte order of the file.
        count: How many numbers of that type it holds.
    """

    name: str
    dtype: np.dtype[Any]
    count: int = 1

    @property
    def size(self) -> int:
        """Bytes in a binary row."""
        return self.dtype.itemsize * self.count

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one row's value: a scalar, or a vector when `count` is above one."""
        return () if self.count == 1 else (self.count,)


def row_bytes(source: Source, fields: Sequence[Field]) -> int:
    """Bytes of one binary row, once they are known to be sane."""
    size = sum(item.size for item in fields)
    if size > MAX_ROW_BYTES:
        raise source.error(f"a row takes {size} bytes: at most {MAX_ROW_BYTES} are read.")
    return size


def record_columns(data: bytes | bytearray, fields: Sequence[Field]) -> Columns:
    """The wanted columns of packed binary rows, without copying them."""
    offsets = itertools.accumulate((item.size for item in fields), initial=0)
    wanted = [
        (item, offset) for item, offset in zip(fields, offsets, strict=False) if item.name in WANTED
    ]
    record = np.dtype(
        {
            "names": [item.name for item, _ in wanted],
            "formats": [(item.dtype, item.shape) for item, _ in wanted],
            "offsets": [offset for _, offset in wanted],
            "itemsize": sum(item.size for item in fields),
        }
    )
    rows = np.frombuffer(data, record)
    return {item.name: rows[item.name] for item, _ in wanted}


def block_columns(data: bytes | bytearray, fields: Sequence[Field], count: int) -> Columns:
    """The wanted columns of a buffer that holds all of one field, then all of the next."""
    columns, offset = {}, 0
    for item in fields:
        if item.name in WANTED:
            values = np.frombuffer(data, item.dtype, count * item.count, offset)
            columns[item.name] = values.reshape(count, *item.shape)
        offset += count * item.size
    return columns


def text_columns(source: Source, fields: Sequence[Field], count: int, what: str) -> Columns:
    """The wanted columns of lines of numbers, all as float64 and not yet of their own type."""
    table = _number_table(source, sum(item.count for item in fields), count, what)
    columns, start = {}, 0
    for item in fields:
        if item.name in WANTED:
            columns[item.name] = table[:, start : start + item.count].reshape(-1, *item.shape)
        start += item.count
    return columns


def as_declared(source: Source, columns: Columns, fields: Sequence[Field]) -> Columns:
    """Columns read from text in the number types that the header gives them."""
    dtypes = {item.name: item.dtype for item in fields}
    return {
        name: _checked_cast(source, values, dtypes[name], name) for name, values in columns.items()
    }


def _checked_cast(
    source: Source, values: Shaped[np.ndarray, "..."], dtype: np.dtype[Any], name: str
) -> Shaped[np.ndarray, "..."]:
    if dtype.kind in "iu" and values.dtype.kind == "f":
        low = float(np.iinfo(dtype).min)
        high = 2.0 * (np.iinfo(dtype).max // 2 + 1)
        wrong = ~((values >= low) & (values < high) & (values == np.rint(values)))
        if wrong.any():
            raise source.error(
                f"{name!r} holds {values[wrong].flat[0]:g}, which is no {dtype.name} as its "
                "header says."
            )
    return values.astype(dtype)


@dataclass
class RowLines:
    """The next lines of a file that are not blank, and which of them came last.

    Attributes:
        source: Where from; exactly the lines given out have been read.
        count: How many to give.
        number: How many were given.
        text: The last one given.
    """

    source: Source
    count: int
    number: int = field(default=0, init=False)
    text: str = field(default="", init=False)

    def __iter__(self) -> Iterator[str]:
        while self.number < self.count:
            line = self.source.file.readline(MAX_LINE_BYTES)
            if not line:
                return
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                raise self.source.error(
                    f"row {self.number + 1} is longer than {MAX_LINE_BYTES} bytes: need one line "
                    "of numbers per point."
                )
            text = as_text(line)
            if text:
                self.text = text
                self.number += 1
                yield text


def _number_table(
    source: Source, columns: int, count: int, what: str
) -> Float[np.ndarray, "points columns"]:
    """`count` lines of `columns` numbers each; memory grows with what was read, not promised."""
    source.check_rows(count, 2 * columns - 1, what)
    lines = RowLines(source, count)
    rows = iter(lines)
    first = next(rows, "")
    try:
        if len(first.split()) != columns:
            raise ValueError(first)
        table = np.loadtxt(itertools.chain([first], rows), dtype=np.float64, comments=None, ndmin=2)
    except FileFormatError:
        raise
    except ValueError as error:
        raise source.error(
            f"{what} row {lines.number} is {quoted(lines.text)}: need {columns} numbers."
        ) from error
    if len(table) != count:
        raise source.error(
            f"the header says {count} {what} rows and {len(table)} follow: the file is truncated "
            "or its header is wrong."
        )
    return table


def binary_rows(columns: Sequence[Shaped[np.ndarray, "points"]], order: str) -> bytes:
    """Columns as packed binary rows in a byte order."""
    formats = [order + column.dtype.str[1:] for column in columns]
    rows = np.empty(len(columns[0]), np.dtype(",".join(formats)))
    for name, column in zip(rows.dtype.names or (), columns, strict=True):
        rows[name] = column
    return rows.tobytes()


def text_rows(columns: Sequence[Shaped[np.ndarray, "points"]]) -> bytes:
    """Columns as lines of numbers that read back as the same numbers."""
    line = " ".join(_text_format(column.dtype) for column in columns) + "\n"
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return "".join(map(line.__mod__, rows)).encode("ascii")


def _text_format(dtype: np.dtype[Any]) -> str:
    """The %-format whose text reads back as the same number.

    Nine digits lie so near a float32 that the detour over float64 that readers take rounds back
    to it; the shortest text that names it may not.
    """
    if dtype.kind != "f":
        return "%d"
    return "%.9g" if dtype.itemsize == 4 else "%r"
