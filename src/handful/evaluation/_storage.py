"""Answers on disk."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float

from handful._files import atomic_write_text
from handful._strict_json import Fields, read_json
from handful.demos import numbers_from_json
from handful.errors import FileFormatError, HandfulError
from handful.evaluation._answers import Answer
from handful.geometry import check_pose

FORMAT, VERSION = "handful-answers", 2
MAX_ANSWERS = 100_000
"""In one file."""
MAX_DISTANCE = 1e3
"""Metres that a pose may be away."""
MAX_ANGLE = 4.0
"""Radians: no two rotations are more than pi apart."""

Nothing = TypeVar("Nothing", float, None)


def write_answers(answers: Sequence[Answer], path: Path) -> None:
    """Write answers to a JSON file."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "answers": [_as_json(answer) for answer in answers],
    }
    atomic_write_text(path, json.dumps(content, indent=1) + "\n")


def read_answers(path: Path) -> list[Answer]:
    """Read answers from a JSON file.

    Raises:
        FileFormatError: It is none of answers, or of another version.
    """
    fields = Fields(read_json(path), str(path), FileFormatError)
    found, version = fields.text("format"), fields.integer("version")
    if found != FORMAT or version not in (1, VERSION):
        raise FileFormatError(f"{path}: is {found!r} {version}: need {FORMAT!r} 1 or {VERSION}.")
    answers = [_from_json(value, where) for where, value in fields.items("answers", MAX_ANSWERS)]
    fields.done()
    return answers


def _as_json(answer: Answer) -> dict[str, Any]:
    pose = answer.T_scene_gripper
    return {
        "demo": answer.demo,
        "step": answer.step,
        "distance": _finite(answer.distance),
        "angle": _finite(answer.angle),
        "rank": answer.rank,
        "confidence": answer.confidence,
        "demonstrated": answer.demonstrated,
        "feasible": answer.feasible,
        "seconds": answer.seconds,
        "T_scene_gripper": None if pose is None else pose.tolist(),
        "on_target": answer.on_target,
        "without": answer.without,
    }


def _from_json(value: Any, address: str) -> Answer:
    fields = Fields(value, address, FileFormatError)
    pose, rank = fields.any("T_scene_gripper"), fields.any("rank")
    answer = Answer(
        fields.text("demo"),
        fields.text("step"),
        _or_none(fields, "distance", MAX_DISTANCE, math.inf),
        _or_none(fields, "angle", MAX_ANGLE, math.inf),
        None if rank is None else fields.integer("rank", low=1),
        fields.number("confidence", low=0.0, high=1.0),
        fields.number("demonstrated", low=0.0, high=1.0),
        fields.flag("feasible"),
        fields.number("seconds", low=0.0),
        None if pose is None else _pose(pose, f"{address}: field 'T_scene_gripper'"),
        # Files of version 1 do not have these two.
        fields.flag("on_target") if _is_there(fields, "on_target") else None,
        _or_none(fields, "without", 1.0, None) if _is_there(fields, "without") else None,
    )
    fields.done()
    return answer


def _pose(value: Any, address: str) -> Float[np.ndarray, "4 4"]:
    """A matrix whose picture can be drawn."""
    try:
        pose = numbers_from_json(value, (4, 4), address)
        check_pose(torch.from_numpy(pose), name=address)
    except HandfulError as error:
        raise FileFormatError(str(error)) from error
    if np.abs(pose[:3, 3]).max() > MAX_DISTANCE:
        raise FileFormatError(f"{address}: is more than {MAX_DISTANCE:g} m away.")
    return pose


def _is_there(fields: Fields, name: str) -> bool:
    return fields.has(name) and fields.any(name) is not None


def _or_none(fields: Fields, name: str, high: float, nothing: Nothing) -> float | Nothing:
    """A number from 0 to `high`, or `nothing` where it is null."""
    if fields.any(name) is None:
        return nothing
    return fields.number(name, low=0.0, high=high)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
