"""PLY rows that differ in size: elements before the vertices, and rows that hold lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from handful.clouds.files._conventions import WANTED
from handful.clouds.files._ply_header import Element, PlyHeader
from handful.clouds.files._source import MAX_LINE_BYTES, Source, quoted
from handful.clouds.files._table import Columns, RowLines


@dataclass(frozen=True)
class _Stretch:
    """A stretch of a binary row: plain bytes, then the length of a list and its items.

    Attributes:
        plain: Bytes of scalars before the list.
        length: Bytes of the list's length; 0 for the stretch after the last list.
        signed: Whether the length has a sign.
        item: Bytes of one item of the list.
    """

    plain: int
    length: int = 0
    signed: bool = False
    item: int = 0


def skip_elements(source: Source, header: PlyHeader) -> None:
    """Pass over every row that comes before the vertices."""
    for element in header.before:
        what = f"element {quoted(element.name)}"
        if not element.properties:
            continue
        if header.is_text:
            _skip_lines(source, element.count, what)
        elif element.has_lists:
            list_row_scalars(source, element, header.byte_order)
        else:
            source.skip(element.count * element.least_bytes, what)


def _skip_lines(source: Source, count: int, what: str) -> None:
    """Pass over lines of any length; blank ones do not count."""
    source.check_rows(count, 2, what)
    done = 0
    while done < count:
        line = source.file.readline(MAX_LINE_BYTES)
        if not line:
            raise source.error(f"{what} has {done} of {count} rows: the file is truncated.")
        done += bool(line.strip())
        while line and not line.endswith(b"\n"):
            line = source.file.readline(MAX_LINE_BYTES)


def list_row_scalars(
    source: Source, element: Element, order: Literal["little", "big"]
) -> bytearray:
    """Go through binary rows that hold lists, and return their other properties, packed."""
    what = f"a row of element {quoted(element.name)}"
    source.check_rows(element.count, element.least_bytes, quoted(element.name))
    stretches = _stretches(element)
    scalars = bytearray()
    for _ in range(element.count):
        for part in stretches:
            data = source.take(part.plain + part.length, what)
            scalars += data[: part.plain]
            items = int.from_bytes(data[part.plain :], order, signed=part.signed)
            if items < 0:
                raise source.error(f"{what} has a list of {items} items: need 0 or more.")
            if items:
                source.skip(items * part.item, f"{what} with a list of {items} items")
    return scalars


def _stretches(element: Element) -> list[_Stretch]:
    stretches, plain = [], 0
    for item in element.properties:
        kind = item.length
        if kind is None:
            plain += item.dtype.itemsize
        else:
            stretches.append(_Stretch(plain, kind.itemsize, kind.kind == "i", item.dtype.itemsize))
            plain = 0
    return [*stretches, _Stretch(plain)] if plain else stretches


def list_row_columns(source: Source, element: Element) -> Columns:
    """The wanted columns of lines of numbers among which there are lists; float64."""
    source.check_rows(element.count, 2 * len(element.properties) - 1, element.name)
    values: dict[str, list[float]] = {
        item.name: [] for item in element.scalars if item.name in WANTED
    }
    lines = RowLines(source, element.count)
    for text in lines:
        try:
            _split_row(text.split(), element, values)
        except (ValueError, IndexError) as error:
            raise source.error(
                f"{element.name} row {lines.number} is {quoted(text)}: need numbers for "
                f"{len(element.properties)} properties, each list with its length first."
            ) from error
    if lines.number != element.count:
        raise source.error(
            f"the header says {element.count} {element.name} rows and {lines.number} follow: the "
            "file is truncated or its header is wrong."
        )
    return {name: np.array(column, dtype=np.float64) for name, column in values.items()}


def _split_row(words: list[str], element: Element, values: dict[str, list[float]]) -> None:
    """Append one row's scalars; ValueError or IndexError when the words do not fit."""
    place = 0
    for item in element.properties:
        if item.length is not None:
            place += 1 + _list_length(words[place], len(words))
        else:
            if item.name in values:
                values[item.name].append(float(words[place]))
            place += 1
    if place != len(words):
        raise ValueError(place)


def _list_length(word: str, limit: int) -> int:
    if not (word.isdigit() and len(word) <= len(str(limit))):
        raise ValueError(word)
    return int(word)
