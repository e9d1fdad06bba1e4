"""The JSON schema of an answer, made of the descriptions of its fields."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from handful.answers._answer import FORMAT, UNITS, VERSION, AnsweredPose, PoseAnswer, Tracking

_ROW = {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}
_KINDS: dict[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "int | None": {"type": ["integer", "null"]},
    "float | None": {"type": ["number", "null"]},
    "tuple[str, ...]": {"type": "array", "items": {"type": "string"}},
}
_MATRIX = {"type": "array", "items": _ROW, "minItems": 4, "maxItems": 4}


def answer_schema() -> dict[str, Any]:
    """The schema of the JSON of a `PoseAnswer`, with a description of every field."""
    schema = _object(PoseAnswer)
    head = {
        "format": {"const": FORMAT, "description": "What this is."},
        "version": {"const": VERSION, "description": "Version of the format."},
        "units": {"const": UNITS, "description": "Metres, radians and seconds, always."},
    }
    schema["properties"] = {**head, **schema["properties"]}
    schema["required"] = [*head, *schema["required"]]
    return schema


def _object(kind: type) -> dict[str, Any]:
    properties = {}
    for one in fields(kind):
        schema = _MATRIX if one.name.startswith("T_") else _schema(str(one.type))
        properties[one.name] = {**schema, "description": one.metadata["about"]}
    return {
        "type": "object",
        "title": kind.__name__,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _schema(annotation: str) -> dict[str, Any]:
    if annotation == "tuple[AnsweredPose, ...]":
        return {"type": "array", "items": _object(AnsweredPose)}
    if annotation == "Tracking | None":
        return {"anyOf": [_object(Tracking), {"type": "null"}]}
    return dict(_KINDS[annotation])
