"""The header of a PLY file: elements, and the properties that make up a row of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from handful.clouds.files._conventions import check_names
from handful.clouds.files._source import Source, quoted
from handful.clouds.files._table import Field
from handful.errors import unknown_name_message

BYTE_ORDERS = {"ascii": "=", "binary_little_endian": "<", "binary_big_endian": ">"}

SCALARS = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1",
    "short": "i2", "int16": "i2", "ushort": "u2", "uint16": "u2",
    "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
    "long": "i8", "int64": "i8", "ulong": "u8", "uint64": "u8",
    "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip


@dataclass(frozen=True)
class Property:
    """One property of an element.

    Attributes:
        name: As the file spells it.
        dtype: Of the value, or of each item of a list.
        length: Integer type of the list's length that comes before its items; None for a scalar.
    """

    name: str
    dtype: np.dtype[Any]
    length: np.dtype[Any] | None = None


@dataclass(frozen=True)
class Element:
    """A table of the file.

    Attributes:
        name: For example ``vertex``.
        count: How many rows it has.
        properties: What a row consists of, in order.
    """

    name: str
    count: int
    properties: tuple[Property, ...]

    @property
    def has_lists(self) -> bool:
        """Whether rows differ in size."""
        return any(item.length is not None for item in self.properties)

    @property
    def scalars(self) -> tuple[Field, ...]:
        """The properties that are not lists."""
        return tuple(Field(item.name, item.dtype) for item in self.properties if not item.length)

    @property
    def least_bytes(self) -> int:
        """Of a binary row: all lists empty."""
        return sum((item.length or item.dtype).itemsize for item in self.properties)


@dataclass(frozen=True)
class PlyHeader:
    """What the header says.

    Attributes:
        encoding: One of `BYTE_ORDERS`.
        before: The elements whose rows come before the vertices.
        vertex: The vertices.
    """

    encoding: str
    before: tuple[Element, ...]
    vertex: Element

    @property
    def is_text(self) -> bool:
        """Whether rows are lines of numbers."""
        return self.encoding == "ascii"

    @property
    def byte_order(self) -> Literal["little", "big"]:
        """Of all binary numbers."""
        return "big" if self.encoding == "binary_big_endian" else "little"


def read_ply_header(source: Source) -> PlyHeader:
    """Read up to and including ``end_header``; the rows begin where this leaves the file."""
    encoding = ""
    elements: list[Element] = []
    for number, line in enumerate(source.header_lines("'end_header'")):
        words = line.split()
        if number == 0 or not words or words[0] in ("comment", "obj_info"):
            continue
        match words:
            case ["end_header"]:
                break
            case ["format", name, "1.0"] if not encoding:
                _check_known(source, "PLY format", name, BYTE_ORDERS)
                encoding = name
            case ["element", name, count]:
                rows = source.whole_number(count, f"the number of {quoted(name)} rows")
                elements.append(Element(name, rows, ()))
            case ["property", *rest] if elements and encoding:
                item = _property(source, rest, BYTE_ORDERS[encoding])
                last = elements[-1]
                elements[-1] = Element(last.name, last.count, (*last.properties, item))
            case _:
                raise source.error(
                    f"header line {number + 1} is {quoted(line)}: need one 'format NAME 1.0', then "
                    "each 'element NAME COUNT' with its 'property' lines."
                )
    if not encoding:
        raise source.error("the header has no 'format' line.")
    return _checked_header(source, encoding, elements)


def _checked_header(source: Source, encoding: str, elements: list[Element]) -> PlyHeader:
    names = [element.name for element in elements]
    if names.count("vertex") != 1:
        found = ", ".join(quoted(name) for name in names[:12]) or "none"
        raise source.error(f"need one element 'vertex'; the elements are {found}.")
    place = names.index("vertex")
    vertex = elements[place]
    check_names(source, [item.name for item in vertex.properties], "vertex property")
    check_names(source, [item.name for item in vertex.scalars], "scalar vertex property")
    source.check_points(vertex.count)
    return PlyHeader(encoding, tuple(elements[:place]), vertex)


def _property(source: Source, words: list[str], order: str) -> Property:
    match words:
        case ["list", length, kind, name]:
            dtype = _dtype(source, length, order)
            if dtype.kind not in "iu":
                raise source.error(
                    f"list {quoted(name)} has a length of type {length}: need an integer type."
                )
            return Property(name, _dtype(source, kind, order), dtype)
        case [kind, name]:
            return Property(name, _dtype(source, kind, order))
    raise source.error(
        f"property {quoted(' '.join(words))}: need 'property TYPE NAME' or "
        "'property list TYPE TYPE NAME'."
    )


def _dtype(source: Source, name: str, order: str) -> np.dtype[Any]:
    _check_known(source, "PLY type", name, SCALARS)
    return np.dtype(order + SCALARS[name])


def _check_known(source: Source, kind: str, name: str, valid: Mapping[str, str]) -> None:
    if name not in valid:
        raise source.error(unknown_name_message(kind, name[:48], valid))
