"""Configurations as JSON: frozen dataclasses written field by field and read back strictly."""

from __future__ import annotations

import dataclasses
import types
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from handful._checks import shown
from handful._strict_json import Fields
from handful.errors import FileFormatError, HandfulError

Config = TypeVar("Config")

MAX_NUMBER = 1e30
"""No length, rate or temperature is larger; comparing before converting keeps huge integers out."""


def config_to_json(config: Any) -> dict[str, Any]:
    """The fields of a dataclass, nested ones as objects and tuples as lists."""
    return dataclasses.asdict(config)


def config_from_json(kind: type[Config], value: Any, address: str) -> Config:
    """A dataclass from JSON.

    A field that is missing takes its default: files of older versions are read. A field that is
    missing and has no default, an unknown field, and one of another type are errors with their
    address.
    """
    fields = Fields(value, address, FileFormatError)
    hints = get_type_hints(kind)
    values = {
        field.name: _read(hints[field.name], fields.any(field.name), f"{address}: {field.name}")
        for field in dataclasses.fields(kind)  # type: ignore[arg-type]
        if fields.has(field.name) or not _has_default(field)
    }
    fields.done()
    try:
        return kind(**values)
    except HandfulError as error:
        raise FileFormatError(f"{address}: {error}") from error


def _has_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def _read(hint: Any, value: Any, address: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return config_from_json(hint, value, address)  # type: ignore[arg-type]
    if get_origin(hint) in (Union, types.UnionType):
        (inner,) = (part for part in get_args(hint) if part is not type(None))
        return None if value is None else _read(inner, value, address)
    if get_origin(hint) is tuple:
        (inner, _) = get_args(hint)
        if not isinstance(value, list):
            raise FileFormatError(f"{address}: need a list.")
        return tuple(_read(inner, item, f"{address}[{i}]") for i, item in enumerate(value))
    accepted = (int, float) if hint is float else hint
    if not isinstance(value, accepted) or (isinstance(value, bool) and hint is not bool):
        raise FileFormatError(f"{address}: is {shown(value)}: need {hint.__name__}.")
    if hint is float and not -MAX_NUMBER < value < MAX_NUMBER:
        raise FileFormatError(f"{address}: is {shown(value)}: need a finite number.")
    return hint(value)
