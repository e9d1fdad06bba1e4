"""JSON read strictly: no duplicate or unknown fields, no NaN, an address in every error.

Manifests, pose files, model configurations, runs, logs and episodes are all read through
`read_json`, `read_json_lines` and `Fields`. Bytes, values, lines and texts are counted before they
cost time and memory.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from handful._files import read_bytes
from handful.errors import FileFormatError, unknown_name_message

MAX_JSON_BYTES = 64 * 2**20
MAX_JSON_VALUES = 2_000_000
"""Of one file, or of one line of a file of lines: a list of as many lists takes 0.2 GB."""
MAX_JSON_LINES = 1_000_000
MAX_JSON_DEPTH = 100
"""Lists and objects inside of each other. Python's own limit differs from version to version."""
MAX_TEXT = 10_000
"""Characters of a text field: enough for a command or a description."""
MAX_WHOLE = 2**63 - 1
"""Largest whole number of a field: what 64 bits hold."""

_OTHER_THAN_BRACKETS = re.compile(r"[^\[\]{}]+")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(path: Path) -> Any:
    """The value in a JSON file.

    Raises:
        FileFormatError: The file is missing, too large, or not strict JSON.
    """
    return parse_json(_read_text(path), str(path))


def read_json_lines(path: Path, nan_is_null: bool = False) -> Iterator[tuple[str, Any]]:
    """The values in a file with one JSON value a line, each with its address, one after the other.

    A last line without its line end was cut off while it was written, and is left out.

    Args:
        path: The file.
        nan_is_null: As for `parse_json`.

    Raises:
        FileFormatError: The file is missing, too large, or a line is not strict JSON.
    """
    text = _read_text(path)
    if text.count("\n") > MAX_JSON_LINES:
        raise FileFormatError(f"{path}: has more than {MAX_JSON_LINES:,} lines.")
    start, number = 0, 1
    while (end := text.find("\n", start)) >= 0:
        address = f"{path}: line {number}"
        yield address, parse_json(text[start:end], address, nan_is_null)
        start, number = end + 1, number + 1


def parse_json(text: str, address: str, nan_is_null: bool = False) -> Any:
    """The value that a JSON text stands for.

    Args:
        text: The whole text.
        address: Where it comes from, for messages.
        nan_is_null: Read NaN and infinities as null, as logs of before have them.

    Raises:
        FileFormatError: It is not strict JSON, or holds too many values.
    """
    if text.count("[") + text.count("{") + text.count(",") > MAX_JSON_VALUES:
        raise FileFormatError(f"{address}: holds more than {MAX_JSON_VALUES:,} values.")
    if _is_deep(text) and _is_deep(_TEXT.sub("", text)):  # brackets in texts do not count
        raise FileFormatError(f"{address}: nested too deeply.")
    constant = _null if nan_is_null else _no_constant
    try:
        value = json.loads(text, parse_constant=constant, object_pairs_hook=_unique_fields)
        if _SURROGATE.search(text):  # half of a character is not text and cannot be written
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except json.JSONDecodeError as error:
        raise FileFormatError(
            f"{address}: line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}."
        ) from error
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise FileFormatError(
            f"{address}: holds {half}, half of a character: need text."
        ) from error
    except RecursionError as error:
        raise FileFormatError(f"{address}: nested too deeply.") from error
    except ValueError as error:
        if str(error).startswith("Exceeds the limit"):  # of Python, for reading whole numbers
            most = sys.get_int_max_str_digits()
            told = f"holds a whole number of too many digits: need at most {most:,}"
            raise FileFormatError(f"{address}: {told}.") from error
        raise FileFormatError(f"{address}: {error}.") from error


def _is_deep(text: str) -> bool:
    """Whether more brackets are open at once than may be."""
    if text.count("[") + text.count("{") <= MAX_JSON_DEPTH:
        return False
    depth = 0
    for bracket in _OTHER_THAN_BRACKETS.sub("", text):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_JSON_DEPTH:
            return True
    return False


def _read_text(path: Path) -> str:
    try:
        return read_bytes(path, MAX_JSON_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: not UTF-8 text: {error.reason}.") from error


class Fields:
    """The fields of one JSON object, taken one by one; whatever is not taken is an error.

    Args:
        value: What the JSON file holds at this address.
        address: File and field path, for messages, for example ``demos.json: steps[0]``.
        error: The class of error to raise.
    """

    def __init__(self, value: Any, address: str, error: type[Exception]) -> None:
        if not isinstance(value, dict):
            raise error(f"{address}: is {_kind(value)}: need an object with fields.")
        self.address = address
        self._error = error
        self._values = dict(value)
        self._known: list[str] = []

    def has(self, name: str) -> bool:
        """Whether the object has that field."""
        self._known.append(name)
        return name in self._values

    def text(self, name: str, default: str | None = None, longest: int = MAX_TEXT) -> str:
        """A string field of at most `longest` characters."""
        value: str = self._take(name, str, "a string", default)
        if len(value) > longest:
            raise self._error(
                f"{self.address}: field {name!r} has {len(value):,} characters: need at most "
                f"{longest:,}."
            )
        return value

    def integer(
        self, name: str, default: int | None = None, low: int = -MAX_WHOLE, high: int = MAX_WHOLE
    ) -> int:
        """A whole-number field from `low` to `high`."""
        value: int = self._take(name, int, "a whole number", default)
        if not low <= value <= high:
            raise self._error(
                f"{self.address}: field {name!r} is {_shown(value)}: need {low} to {high}."
            )
        return value

    def number(
        self,
        name: str,
        default: float | None = None,
        low: float = -sys.float_info.max,
        high: float = sys.float_info.max,
    ) -> float:
        """A finite number field from `low` to `high`."""
        value = self._take(name, (int, float), "a number", default)
        if not abs(value) <= sys.float_info.max:  # float() cannot hold larger whole numbers
            raise self._error(f"{self.address}: field {name!r} is too large: need a finite number.")
        if not low <= value <= high:
            raise self._error(
                f"{self.address}: field {name!r} is {float(value):g}: need {low:g} to {high:g}."
            )
        return float(value)

    def maybe_number(self, name: str) -> float | None:
        """A finite number field; None where it is null or missing."""
        if not self.has(name) or self._values[name] is None:
            return None
        return self.number(name)

    def flag(self, name: str, default: bool | None = None) -> bool:
        """A field that is true or false."""
        value = default
        if default is None or self.has(name):
            value = self.any(name)
        if not isinstance(value, bool):
            raise self._error(f"{self.address}: field {name!r}: need true or false.")
        return value

    def items(self, name: str, most: int = MAX_JSON_VALUES) -> list[tuple[str, Any]]:
        """A list field of at most `most` items, each with its own address."""
        values = self._take(name, list, "a list", None)
        if len(values) > most:
            raise self._error(
                f"{self.address}: field {name!r} has {len(values):,} items: need at most {most:,}."
            )
        return [(f"{self.address}: {name}[{index}]", value) for index, value in enumerate(values)]

    def any(self, name: str) -> Any:
        """A field of any kind."""
        return self._take(name, object, "a value", None)

    def choose(self, names: Collection[str]) -> str:
        """The one field that is there out of several that exclude each other."""
        found = [name for name in names if self.has(name)]
        if len(found) != 1:
            raise self._error(
                f"{self.address}: has {found or 'none'} of {sorted(names)}: need exactly one."
            )
        return found[0]

    def done(self) -> None:
        """Refuse fields that were never asked for."""
        for name in self._values:
            if name not in self._known:
                message = unknown_name_message("field", name, set(self._known))
                raise self._error(f"{self.address}: {message}")

    def _take(self, name: str, kind: Any, description: str, default: Any) -> Any:
        self._known.append(name)
        if name not in self._values:
            if default is not None:
                return default
            raise self._error(f"{self.address}: field {name!r} is missing: need {description}.")
        value = self._values[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not object):
            raise self._error(
                f"{self.address}: field {name!r} is {_kind(value)}: need {description}."
            )
        return value


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    if type(value) in names:
        return names[type(value)]
    return "nothing" if value is None else f"the number {_shown(value)}"


def _shown(value: float) -> str:
    """A number for a message; a whole number may have thousands of digits."""
    return f"{value}" if abs(value) <= MAX_WHOLE else "one of more than 64 bits"


def _null(name: str) -> None:
    return None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number that JSON has")


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"field {twice!r} stands twice in one object")
    return fields
