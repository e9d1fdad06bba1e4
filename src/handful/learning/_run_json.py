"""What `run.json` and the training logs of a run say, read strictly; the one reader of both.

A run's folder may come from anyone: every field has a type and a range, and unknown fields are
errors. Runs of version 1, which had the figures of their models at the top, are read too.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handful._strict_json import Fields, read_json_lines
from handful.demos import MAX_STEPS as MAX_TASK_STEPS
from handful.demos import Action, Task, TaskStep
from handful.errors import FileFormatError, HandfulError

FORMAT = "handful-run"
VERSION = 2

MAX_SECONDS = 1e9
"""No training takes longer: thirty years."""
MAX_COUNT = 10**9
"""No count of steps or demonstrations is larger."""

_LABELS = ("handful", "torch", "python")
"""Versions of software that are noted as text."""


@dataclass(frozen=True)
class DemonstrationsNote:
    """What a run was trained on.

    Attributes:
        folder: Where the demonstrations were; empty if it is not known.
        count: How many there were; None if it is not known.
    """

    folder: str = ""
    count: int | None = None


@dataclass(frozen=True)
class TrainedStep:
    """What is noted of the model of one step; None and empty where it is not known.

    Attributes:
        seconds: That training took.
        fingerprint: Of demonstrations and recipe.
        skipped: Optimiser steps that were not finite.
        steps: Optimiser steps.
        seed: Of the training.
        separated: Demonstrations whose object was told from its scene; None for a full gripper.
    """

    seconds: float | None = None
    fingerprint: str = ""
    skipped: int = 0
    steps: int | None = None
    seed: int | None = None
    separated: int | None = None


@dataclass(frozen=True)
class RunSummary:
    """What `run.json` says; empty where it says nothing.

    Attributes:
        versions: Of `handful`, `torch` and `python`, by these names.
        task: Steps of the task; None in runs of version 1.
        demonstrations: What the run was trained on.
        options: That training was given, by name.
        command: That was given.
        models: What is noted of each model, by the name of its step.
    """

    versions: dict[str, str] = field(default_factory=dict)
    task: Task | None = None
    demonstrations: DemonstrationsNote = field(default_factory=DemonstrationsNote)
    options: dict[str, Any] = field(default_factory=dict)
    command: str = ""
    models: dict[str, TrainedStep] = field(default_factory=dict)


@dataclass(frozen=True)
class LogEntry:
    """One line of a training log; numbers that were not finite are None.

    Attributes:
        step: Number of the optimiser step, from 0.
        steps: How many there will be.
        loss: As in `StepReport`, like the next four.
        likelihood: What stands for -log P.
        target_energy: Of the demonstrated poses.
        negative_energy: Of what competes with them.
        weights: Query weights.
        skipped: Steps skipped so far.
        seconds: Since training began.
    """

    step: int = 0
    steps: int = 0
    loss: float | None = None
    likelihood: float | None = None
    target_energy: float | None = None
    negative_energy: float | None = None
    weights: tuple[float, ...] = ()
    skipped: int = 0
    seconds: float | None = None

    def to_json(self) -> str:
        """One line, without its end."""
        return json.dumps(_finite(dataclasses.asdict(self)), allow_nan=False)


def summary_from_json(value: Any, address: str) -> RunSummary:
    """Read what `run.json` holds.

    Args:
        value: The parsed file.
        address: The file, for messages.

    Raises:
        FileFormatError: A field is unknown, of another type, or out of range.
    """
    fields = Fields(value, address, FileFormatError)
    # Files of version 1 need not say so: their models stand beside everything else.
    unsaid = VERSION if fields.has("models") or fields.has("steps") else 1
    name, version = fields.text("format", FORMAT), fields.integer("version", unsaid)
    if name != FORMAT or version not in (1, VERSION):
        raise FileFormatError(f"{address}: need format {FORMAT!r}, version 1 or {VERSION}.")
    versions = {label: fields.text(label) for label in _LABELS if fields.has(label)}
    noted = fields.any("demonstrations") if fields.has("demonstrations") else {}
    summary = RunSummary(
        versions,
        _task(fields, f"{address}: steps") if fields.has("steps") else None,
        _demonstrations(noted, f"{address}: demonstrations"),
        _options(fields.any("options"), f"{address}: options") if fields.has("options") else {},
        fields.text("command", ""),
        _models_of_version_1(fields) if version == 1 else _models(fields),
    )
    fields.done()
    return summary


def read_log(path: Path) -> list[LogEntry]:
    """The lines of a training log; none when there is no log.

    Raises:
        FileFormatError: A line is something else.
    """
    if not path.is_file():
        return []
    lines = read_json_lines(path, nan_is_null=True)  # logs of before hold NaN
    return [_log_entry(value, address) for address, value in lines]


def _log_entry(value: Any, address: str) -> LogEntry:
    fields = Fields(value, address, FileFormatError)
    names = ("loss", "likelihood", "target_energy", "negative_energy", "seconds")
    numbers = {name: fields.maybe_number(name) for name in names}
    step, steps, skipped = (
        fields.integer(name, 0, 0, MAX_COUNT) for name in ("step", "steps", "skipped")
    )
    weights = fields.items("weights", most=10_000) if fields.has("weights") else []
    fields.done()
    return LogEntry(step, steps, weights=_numbers(weights), skipped=skipped, **numbers)


def _numbers(items: list[tuple[str, Any]]) -> tuple[float, ...]:
    for address, value in items:
        if type(value) not in (int, float) or not abs(value) <= 1e30:
            raise FileFormatError(f"{address}: need a finite number.")
    return tuple(float(value) for _, value in items)


def _task(fields: Fields, address: str) -> Task:
    steps = []
    try:
        for where, item in fields.items("steps", most=MAX_TASK_STEPS):
            inner = Fields(item, where, FileFormatError)
            steps.append(TaskStep(inner.text("name"), Action.named(inner.text("action"))))
            inner.done()
        return Task(tuple(steps))
    except HandfulError as error:
        raise FileFormatError(f"{address}: {error}") from error


def _demonstrations(value: Any, address: str) -> DemonstrationsNote:
    fields = Fields(value, address, FileFormatError)
    count = fields.integer("count", low=1, high=MAX_COUNT) if fields.has("count") else None
    note = DemonstrationsNote(fields.text("folder", ""), count)
    fields.done()
    return note


def _options(value: Any, address: str) -> dict[str, Any]:
    """Options are for people: plain values of any name."""
    fields = Fields(value, address, FileFormatError)
    for name, one in value.items():
        if isinstance(one, str):
            fields.text(name)
        elif isinstance(one, dict | list):
            raise FileFormatError(f"{address}: field {name[:80]!r}: need a plain value.")
    return dict(value)


def _models(fields: Fields) -> dict[str, TrainedStep]:
    if not fields.has("models"):
        return {}
    address = f"{fields.address}: models"
    value = fields.any("models")
    names = Fields(value, address, FileFormatError)
    return {name: _trained(names.any(name), f"{address}: {name[:80]}") for name in value}


def _models_of_version_1(fields: Fields) -> dict[str, TrainedStep]:
    """The steps of version 1 were called by their actions, and stood at the top."""
    names = [action.value for action in Action if fields.has(action.value)]
    return {name: _trained(fields.any(name), f"{fields.address}: {name}") for name in names}


def _trained(value: Any, address: str) -> TrainedStep:
    fields = Fields(value, address, FileFormatError)
    counts = {
        name: fields.integer(name, low=0) if fields.has(name) else None
        for name in ("steps", "seed", "separated")
    }
    trained = TrainedStep(
        seconds=fields.number("seconds", low=0.0, high=MAX_SECONDS)
        if fields.has("seconds")
        else None,
        fingerprint=fields.text("fingerprint", "", longest=100),
        skipped=fields.integer("skipped", 0, low=0),
        **counts,
    )
    fields.done()
    return trained


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN and no infinity."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }
