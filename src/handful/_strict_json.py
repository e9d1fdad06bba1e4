"""JSON read strictly: no duplicate or unknown fields, no NaN, an address in every error.

Manifests, pose files and model configurations are all read through `read_json` and `Fields`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from handful.errors import FileFormatError, unknown_name_message

MAX_JSON_BYTES = 64 * 2**20


def read_json(path: Path) -> Any:
    """The value in a JSON file.

    Raises:
        FileFormatError: The file is missing, too large, or not strict JSON.
    """
    return parse_json(_read_text(path), str(path))


def read_json_lines(path: Path) -> list[tuple[str, Any]]:
    """The values in a file with one JSON value a line, each with its address.

    A last line without its line end was cut off while it was written, and is left out.

    Raises:
        FileFormatError: The file is missing, too large, or a line is not strict JSON.
    """
    whole = _read_text(path).split("\n")[:-1]
    return [
        (f"{path}: line {number}", parse_json(line, f"{path}: line {number}"))
        for number, line in enumerate(whole, start=1)
    ]


def parse_json(text: str, address: str) -> Any:
    """The value that a JSON text stands for.

    Args:
        text: The whole text.
        address: Where it comes from, for messages.

    Raises:
        FileFormatError: It is not strict JSON.
    """
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique_fields)
    except json.JSONDecodeError as error:
        raise FileFormatError(
            f"{address}: line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}."
        ) from error
    except RecursionError as error:
        raise FileFormatError(f"{address}: nested too deeply.") from error
    except ValueError as error:
        raise FileFormatError(f"{address}: {error}.") from error


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise FileFormatError(f"{path}: larger than {MAX_JSON_BYTES >> 20} MiB.")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: not UTF-8 text: {error.reason}.") from error
    except FileFormatError:
        raise
    except ValueError as error:
        raise FileFormatError(f"{path}: {error}.") from error


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

    def text(self, name: str, default: str | None = None) -> str:
        """A string field."""
        return self._take(name, str, "a string", default)

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole-number field."""
        return self._take(name, int, "a whole number", default)

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number field."""
        value = self._take(name, (int, float), "a number", default)
        if not abs(value) <= sys.float_info.max:  # float() cannot hold larger whole numbers
            raise self._error(f"{self.address}: field {name!r} is too large: need a finite number.")
        return float(value)

    def flag(self, name: str, default: bool | None = None) -> bool:
        """A field that is true or false."""
        value = default
        if default is None or self.has(name):
            value = self.any(name)
        if not isinstance(value, bool):
            raise self._error(f"{self.address}: field {name!r}: need true or false.")
        return value

    def items(self, name: str) -> list[tuple[str, Any]]:
        """A list field, each item with its own address."""
        values = self._take(name, list, "a list", None)
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
    return names.get(type(value), "nothing" if value is None else f"the number {value}")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number that JSON has")


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"field {twice!r} stands twice in one object")
    return fields
