"""Answers on disk."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from handful._files import atomic_write_text
from handful._strict_json import Fields, read_json
from handful.errors import FileFormatError
from handful.evaluation._answers import Answer

FORMAT, VERSION = "handful-answers", 2


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
    found, version = fields.text("format"), fields.any("version")
    if found != FORMAT or version not in (1, VERSION):
        raise FileFormatError(f"{path}: is {found!r} {version}: need {FORMAT!r} 1 or {VERSION}.")
    answers = [_from_json(value, where) for where, value in fields.items("answers")]
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
    try:
        pose = fields.any("T_scene_gripper")
        rank = fields.any("rank")
        answer = Answer(
            fields.text("demo"),
            fields.text("step"),
            _number(fields.any("distance")),
            _number(fields.any("angle")),
            None if rank is None else int(rank),
            float(fields.any("confidence")),
            float(fields.any("demonstrated")),
            bool(fields.any("feasible")),
            float(fields.any("seconds")),
            None if pose is None else np.array(pose, dtype=np.float64).reshape(4, 4),
            *_of_version_2(fields),
        )
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"{address}: is not an answer: {error}.") from error
    fields.done()
    return answer


def _of_version_2(fields: Fields) -> tuple[bool | None, float | None]:
    """`on_target` and `without`, which files of version 1 do not have."""
    on_target = fields.any("on_target") if fields.has("on_target") else None
    without = fields.any("without") if fields.has("without") else None
    return (
        None if on_target is None else bool(on_target),
        None if without is None else float(without),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: Any) -> float:
    return math.inf if value is None else float(value)
