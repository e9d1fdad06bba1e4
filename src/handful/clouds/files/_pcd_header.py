"""The header of a PCD file: fields with their types, the number of points, and the encoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from handful.clouds.files._conventions import PACKED_COLORS, WANTED, check_names
from handful.clouds.files._source import Source, quoted
from handful.clouds.files._table import Field
from handful.errors import unknown_name_message

PCD_ENCODINGS = ("ascii", "binary", "binary_compressed")

KEYWORDS = ("VERSION", "FIELDS", "COLUMNS", "SIZE", "TYPE", "COUNT", "WIDTH", "HEIGHT",
            "VIEWPOINT", "POINTS", "DATA")  # fmt: skip
VERSIONS = (".5", "0.5", ".6", "0.6", ".7", "0.7")
TYPES = {
    **{("I", str(size)): f"<i{size}" for size in (1, 2, 4, 8)},
    **{("U", str(size)): f"<u{size}" for size in (1, 2, 4, 8)},
    **{("F", str(size)): f"<f{size}" for size in (4, 8)},
}
MAX_COUNT = 65536
"""Numbers in one field; the longest descriptors in use have about two thousand."""

Entries = Mapping[str, list[str]]


@dataclass(frozen=True)
class PcdHeader:
    """What the header says.

    Attributes:
        fields: What a point consists of, in order.
        points: How many points there are.
        data: One of `PCD_ENCODINGS`.
    """

    fields: tuple[Field, ...]
    points: int
    data: str


def read_pcd_header(source: Source) -> PcdHeader:
    """Read up to and including the DATA line; the points begin where this leaves the file."""
    entries = _entries(source)
    version = " ".join(entries.get("VERSION", ["0.7"]))
    if version not in VERSIONS:
        raise source.error(f"VERSION is {quoted(version)}: need one of {', '.join(VERSIONS)}.")
    data = " ".join(entries["DATA"])
    if data not in PCD_ENCODINGS:
        raise source.error(unknown_name_message("PCD DATA", data[:48], PCD_ENCODINGS))
    fields = _fields(source, entries)
    points = _point_count(source, entries)
    source.check_points(points)
    return PcdHeader(fields, points, data)


def _entries(source: Source) -> dict[str, list[str]]:
    """The words after each keyword."""
    entries: dict[str, list[str]] = {}
    for line in source.header_lines("the DATA line"):
        keyword, *words = line.split() or ["#"]
        if keyword.startswith("#"):
            continue
        if keyword not in KEYWORDS:
            raise source.error(unknown_name_message("PCD header line", keyword[:48], KEYWORDS))
        keyword = "FIELDS" if keyword == "COLUMNS" else keyword
        if keyword in entries:
            raise source.error(f"the header has two {keyword} lines.")
        entries[keyword] = words
        if keyword == "DATA":
            break
    return entries


def _fields(source: Source, entries: Entries) -> tuple[Field, ...]:
    names = entries.get("FIELDS", [])
    check_names(source, names, "field")
    counts = entries.get("COUNT", ["1"] * len(names))
    columns = {"SIZE": entries.get("SIZE", []), "TYPE": entries.get("TYPE", []), "COUNT": counts}
    for keyword, words in columns.items():
        if len(words) != len(names):
            raise source.error(f"{keyword} has {len(words)} entries for {len(names)} FIELDS.")
    return tuple(
        _field(source, *words)
        for words in zip(names, columns["SIZE"], columns["TYPE"], counts, strict=True)
    )


def _field(source: Source, name: str, size: str, kind: str, count: str) -> Field:
    if (kind, size) not in TYPES:
        raise source.error(
            f"field {quoted(name)} has TYPE {quoted(kind)} and SIZE {quoted(size)}: need I or U of "
            "1, 2, 4 or 8 bytes, or F of 4 or 8."
        )
    number = source.whole_number(count, f"COUNT of field {quoted(name)}")
    most = 1 if name in WANTED and name not in PACKED_COLORS else MAX_COUNT
    if not 1 <= number <= most:
        need = "1" if most == 1 else f"1 to {most}"
        raise source.error(f"COUNT of field {quoted(name)} is {number}: need {need}.")
    return Field(name, np.dtype(TYPES[kind, size]), number)


def _point_count(source: Source, entries: Entries) -> int:
    """POINTS, or WIDTH times HEIGHT; all that are given must agree."""
    given = {
        keyword: source.whole_number(" ".join(entries[keyword]), keyword)
        for keyword in ("WIDTH", "HEIGHT", "POINTS")
        if keyword in entries
    }
    if "WIDTH" not in given and "POINTS" not in given:
        raise source.error("the header has neither POINTS nor WIDTH.")
    area = given["WIDTH"] * given.get("HEIGHT", 1) if "WIDTH" in given else given["POINTS"]
    points = given.get("POINTS", area)
    if points != area:
        raise source.error(
            f"POINTS is {points} and WIDTH x HEIGHT is {area}: they must be the same."
        )
    return points
