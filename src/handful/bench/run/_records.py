"""What is kept of an episode: one line of JSON, keyed by the steps of its task."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from handful._strict_json import Fields
from handful.bench.run._records_v1 import record_values_of_version_1
from handful.demos import MAX_STEPS, Action, TaskStep
from handful.errors import DemoError, FileFormatError
from handful.policy import LookedAhead, StepFailure, StepRecord

VERSION = 2
"""Version of the lines. Lines of version 1 are read, too."""

MAX_NAME = 500
"""Characters of the name of a task, a setup, an object or a reason."""
MAX_SECONDS = 1e9
_MAX_COUNT = 10**9

NO_LAYOUT = "no layout"
"""The outcome of an episode that could not begin."""


@dataclass(frozen=True)
class Failure:
    """Why an episode failed, as far as can be told without looking at it.

    Attributes:
        step: Name of the step that failed.
        kind: How that step failed.
    """

    step: str
    kind: StepFailure

    def __str__(self) -> str:
        return f"{self.step}: {self.kind.value}"


@dataclass(frozen=True)
class EpisodeRecord:
    """How an episode went.

    Attributes:
        task: Name of the task.
        setup: Name of the setup.
        seed: Of the episode. The random numbers of the policy follow from it, too.
        planned: Names of the steps of the task, in order.
        things: Names of the objects that the robot was to move.
        lying: Whether an object lay at the beginning.
        success: Whether the whole task was done.
        failure: The step that failed, and how; None if none did, or if the episode did not begin.
        reason: More about the end of the episode, for people.
        steps: Records of the steps that were begun, in order. None of them means that the episode
            could not begin.
        seconds: Wall-clock time of the whole episode.
    """

    task: str
    setup: str
    seed: int
    planned: tuple[str, ...]
    things: tuple[str, ...] = ()
    lying: bool = False
    success: bool = False
    failure: Failure | None = None
    reason: str = ""
    steps: tuple[StepRecord, ...] = ()
    seconds: float = 0.0

    @property
    def begun(self) -> bool:
        """Whether there was a layout to act in. Episodes without one say nothing of the policy."""
        return bool(self.steps)

    @property
    def outcome(self) -> str:
        """The kind of failure in words; empty after a success."""
        if self.success:
            return ""
        return NO_LAYOUT if self.failure is None else str(self.failure)

    def step(self, name: str) -> StepRecord | None:
        """The record of a step; None if the episode did not come to it."""
        return next((one for one in self.steps if one.name == name), None)

    def to_json(self) -> str:
        """One line."""
        values = asdict(self)
        if self.failure is not None:
            values["failure"]["kind"] = self.failure.kind.value
        for step in values["steps"]:
            step["failure"] = None if step["failure"] is None else step["failure"].value
        return json.dumps(_plain(values), allow_nan=False, ensure_ascii=False)


def record_from_json(value: Any, address: str, version: int = VERSION) -> EpisodeRecord:
    """Read what `EpisodeRecord.to_json` wrote, in this version or an older one.

    Args:
        value: The parsed line.
        address: Where the line stands, for messages.
        version: Of the file that holds the line.

    Raises:
        FileFormatError: The line is something else. The message begins with `address`.
    """
    if version == 1:
        value = record_values_of_version_1(value, address)
    fields = Fields(value, address, FileFormatError)
    record = EpisodeRecord(
        task=fields.text("task", longest=MAX_NAME),
        setup=fields.text("setup", longest=MAX_NAME),
        seed=fields.integer("seed", low=0),
        planned=_texts(fields, "planned"),
        things=_texts(fields, "things"),
        lying=fields.flag("lying"),
        success=fields.flag("success"),
        failure=_failure(fields.any("failure"), f"{address}: failure"),
        reason=fields.text("reason"),
        steps=tuple(_step(item, where) for where, item in fields.items("steps")),
        seconds=fields.number("seconds", low=0.0, high=MAX_SECONDS),
    )
    fields.done()
    _check_steps(record, address)
    return record


def _check_steps(record: EpisodeRecord, address: str) -> None:
    try:
        for name in record.planned:  # models, logs and pictures have the names of their steps
            TaskStep(name, Action.PICK)
    except DemoError as error:
        raise FileFormatError(f"{address}: planned: {error}") from error
    names = tuple(step.name for step in record.steps)
    if not record.planned or names != record.planned[: len(names)]:
        raise FileFormatError(
            f"{address}: has records of the steps {list(names)}: need the first ones of "
            f"{list(record.planned)}, in order."
        )
    if record.failure is not None and record.failure.step not in names:
        raise FileFormatError(
            f"{address}: failure: names the step {record.failure.step!r}: need one of "
            f"{list(names)}."
        )
    if record.success and (record.failure is not None or names != record.planned):
        raise FileFormatError(
            f"{address}: field 'success' is true: need all steps and no failure then."
        )
    if names and not record.success and record.failure is None:
        raise FileFormatError(
            f"{address}: field 'failure' is null: need the step that failed and how."
        )


def _failure(value: Any, address: str) -> Failure | None:
    if value is None:
        return None
    fields = Fields(value, address, FileFormatError)
    failure = Failure(fields.text("step"), _kind(fields.any("kind"), address))
    fields.done()
    return failure


def _kind(value: Any, address: str) -> StepFailure:
    try:
        return StepFailure(value)
    except ValueError as error:
        valid = ", ".join(repr(kind.value) for kind in StepFailure)
        raise FileFormatError(
            f"{address}: kind of failure {str(value)[:80]!r}: need one of {valid}."
        ) from error


def _step(value: Any, address: str) -> StepRecord:
    fields = Fields(value, address, FileFormatError)
    skipped = fields.any("skipped")
    if not isinstance(skipped, dict) or not all(
        type(n) is int and 0 <= n <= _MAX_COUNT and len(reason) <= MAX_NAME
        for reason, n in skipped.items()
    ):
        raise FileFormatError(f"{address}: field 'skipped': need counts by reason.")
    failure = fields.any("failure")
    step = StepRecord(
        name=fields.text("name"),
        ok=fields.flag("ok"),
        proposed=fields.integer("proposed", low=0, high=_MAX_COUNT),
        skipped=skipped,
        seconds=fields.number("seconds", low=0.0, high=MAX_SECONDS),
        energy=_maybe_number(fields, "energy"),
        confidence=_maybe_number(fields, "confidence"),
        best_confidence=_maybe_number(fields, "best_confidence"),
        T_scene_gripper=_maybe_pose(fields.any("T_scene_gripper"), address),
        failure=None if failure is None else _kind(failure, f"{address}: field 'failure'"),
        reason=fields.text("reason"),
        looks=fields.integer("looks", 1, low=0, high=_MAX_COUNT),
        looked_ahead=_looked_ahead(fields, f"{address}: looked_ahead"),
    )
    fields.done()
    return step


def _looked_ahead(fields: Fields, address: str) -> LookedAhead | None:
    """What looking ahead brought; lines of before have no such field."""
    value = fields.any("looked_ahead") if fields.has("looked_ahead") else None
    if value is None:
        return None
    inner = Fields(value, address, FileFormatError)
    tried, passed, unknown = (
        inner.integer(name, low=0, high=_MAX_COUNT) for name in ("tried", "passed", "unknown")
    )
    seconds = inner.number("seconds", low=0.0, high=MAX_SECONDS)
    ahead = LookedAhead(tried, passed, unknown, seconds, inner.flag("changed"))
    inner.done()
    return ahead


def _texts(fields: Fields, name: str) -> tuple[str, ...]:
    items = fields.items(name, most=MAX_STEPS)
    for address, item in items:
        if not isinstance(item, str) or len(item) > MAX_NAME:
            raise FileFormatError(f"{address}: is {str(item)[:80]!r}: need a name.")
    return tuple(item for _, item in items)


def _maybe_number(fields: Fields, name: str) -> float | None:
    return None if fields.any(name) is None else fields.number(name)


def _maybe_pose(value: Any, address: str) -> list[list[float]] | None:
    if value is None:
        return None
    rows = value if isinstance(value, list) else []
    if [len(row) if isinstance(row, list) else 0 for row in rows] != [4, 4, 4, 4] or not all(
        type(number) in (int, float) and abs(number) <= _MAX_COUNT for row in rows for number in row
    ):
        raise FileFormatError(
            f"{address}: field 'T_scene_gripper': need four rows of four numbers, or null."
        )
    return [[float(number) for number in row] for row in rows]


def _plain(value: Any) -> Any:
    """The value with numbers that JSON does not have turned into null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
