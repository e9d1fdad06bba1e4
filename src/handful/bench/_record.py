"""What is kept of an episode: one line of JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from handful._strict_json import Fields
from handful.errors import FileFormatError


class Failure(Enum):
    """Why an episode failed, as far as can be told without looking at it."""

    NONE = ""
    NO_LAYOUT = "no layout"
    PICK_NOT_SAMPLED = "pick: no pose proposed"
    PICK_INFEASIBLE = "pick: no proposed pose is feasible"
    PICK_AWAY = "pick: went to something else"
    PICK_LOST = "pick: object not held"
    PLACE_NOT_SAMPLED = "place: no pose proposed"
    PLACE_INFEASIBLE = "place: no proposed pose is feasible"
    PLACE_AWAY = "place: went to something else"
    PLACE_LOST = "place: object not held by the target"


@dataclass(frozen=True)
class StepRecord:
    """How a pick or a place went.

    Attributes:
        ok: Whether it succeeded.
        proposed: How many poses the model proposed, in all attempts.
        skipped: How many were skipped before the one that was executed, by reason.
        seconds: Of inference.
        energy: Of the executed pose; None if none was.
        confidence: The same.
        best_confidence: Of the best proposed pose, feasible or not.
        pose: T_scene_gripper that was executed, row by row.
        reason: What was seen, for people.
    """

    ok: bool
    proposed: int
    skipped: dict[str, int]
    seconds: float
    energy: float | None = None
    confidence: float | None = None
    best_confidence: float | None = None
    pose: list[list[float]] | None = None
    reason: str = ""

    @property
    def skips(self) -> int:
        """How many poses were skipped."""
        return sum(self.skipped.values())


@dataclass(frozen=True)
class EpisodeRecord:
    """How an episode went.

    Attributes:
        task: Its name.
        setup: Its name.
        seed: Of the episode; the policy's random numbers follow from it, too.
        thing: The object.
        lying: Whether the object lay.
        success: Whether the whole task was done.
        failure: The kind of failure.
        reason: More about it, for people.
        pick: The pick; None if the episode could not begin.
        place: The place; None if it did not come to it.
        seconds: Wall-clock time of everything.
    """

    task: str
    setup: str
    seed: int
    thing: str = ""
    lying: bool = False
    success: bool = False
    failure: Failure = Failure.NONE
    reason: str = ""
    pick: StepRecord | None = None
    place: StepRecord | None = None
    seconds: float = 0.0

    @property
    def counts(self) -> bool:
        """Whether it says anything about the policy: an episode that cannot begin does not."""
        return self.failure is not Failure.NO_LAYOUT

    @property
    def picked(self) -> bool:
        """Whether the object was picked."""
        return self.pick is not None and self.pick.ok

    def to_json(self) -> str:
        """One line."""
        values = asdict(self)
        values["failure"] = self.failure.value
        return json.dumps(_plain(values), allow_nan=False, ensure_ascii=False)


def record_from_json(value: Any, address: str) -> EpisodeRecord:
    """Read what `EpisodeRecord.to_json` wrote.

    Raises:
        FileFormatError: It is something else; the message begins with `address`.
    """
    fields = Fields(value, address, FileFormatError)
    try:
        failure = Failure(fields.text("failure"))
    except ValueError as error:
        raise FileFormatError(f"{address}: field 'failure' is none that is known.") from error
    record = EpisodeRecord(
        task=fields.text("task"),
        setup=fields.text("setup"),
        seed=fields.integer("seed"),
        thing=fields.text("thing"),
        lying=_flag(fields, "lying"),
        success=_flag(fields, "success"),
        failure=failure,
        reason=fields.text("reason"),
        pick=_step_from_json(fields.any("pick"), f"{address}: pick"),
        place=_step_from_json(fields.any("place"), f"{address}: place"),
        seconds=fields.number("seconds"),
    )
    fields.done()
    return record


def _step_from_json(value: Any, address: str) -> StepRecord | None:
    if value is None:
        return None
    fields = Fields(value, address, FileFormatError)
    skipped = fields.any("skipped")
    if not isinstance(skipped, dict) or not all(type(n) is int for n in skipped.values()):
        raise FileFormatError(f"{address}: field 'skipped': need counts by reason.")
    step = StepRecord(
        ok=_flag(fields, "ok"),
        proposed=fields.integer("proposed"),
        skipped=skipped,
        seconds=fields.number("seconds"),
        energy=_maybe_number(fields, "energy"),
        confidence=_maybe_number(fields, "confidence"),
        best_confidence=_maybe_number(fields, "best_confidence"),
        pose=_maybe_pose(fields.any("pose"), address),
        reason=fields.text("reason"),
    )
    fields.done()
    return step


def _flag(fields: Fields, name: str) -> bool:
    value = fields.any(name)
    if not isinstance(value, bool):
        raise FileFormatError(f"{fields.address}: field {name!r}: need true or false.")
    return value


def _maybe_number(fields: Fields, name: str) -> float | None:
    return None if fields.any(name) is None else fields.number(name)


def _maybe_pose(value: Any, address: str) -> list[list[float]] | None:
    if value is None:
        return None
    rows = value if isinstance(value, list) else []
    if [len(row) if isinstance(row, list) else 0 for row in rows] != [4, 4, 4, 4] or not all(
        type(number) in (int, float) for row in rows for number in row
    ):
        raise FileFormatError(f"{address}: field 'pose': need four rows of four numbers, or null.")
    return [[float(number) for number in row] for row in rows]


def _plain(value: Any) -> Any:
    """The value with numbers that JSON does not have turned into null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
