"""What is answered to "where should the gripper go?", and its JSON.

`handful infer --json`, `handful serve` and `handful.client` all speak it. Every field says in its
metadata what it holds; the service's OpenAPI page and the docs are made of, or checked with, that.
"""

# ruff: noqa: RUF009 - `_about` makes fields, as `dataclasses.field` does

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from jaxtyping import Float

from handful._strict_json import Fields, parse_json
from handful.errors import FileFormatError

FORMAT = "handful-poses"
VERSION = 2
"""Version 1 had neither feasibility nor frame, stamp, units and finger widths."""
UNITS = {"length": "m", "angle": "rad", "time": "s"}


def _about(text: str, **options: Any) -> Any:
    """A field with its description."""
    return field(metadata={"about": text}, **options)


@dataclass(frozen=True, eq=False)
class AnsweredPose:
    """One gripper pose with all that a robot needs to execute it, or why it must not."""

    T_scene_pre: Float[np.ndarray, "4 4"] = _about(
        "Where the approach begins: the pose, moved back along the approach. Row by row; maps "
        "gripper coordinates to those of `frame`."
    )
    T_scene_gripper: Float[np.ndarray, "4 4"] = _about("Where the gripper acts; the pose itself.")
    T_scene_retreat: Float[np.ndarray, "4 4"] = _about("Where to go after it has acted.")
    width_before: float | None = _about(
        "Distance between the fingers on the way to the pose, metres. Null: leave them as they "
        "are, around what they hold."
    )
    width_after: float | None = _about(
        "Distance between the fingers after the action, metres. When they close it is the extent "
        "of the points seen between them, which the far side of a thing may exceed. Null: nothing "
        "is seen there."
    )
    energy: float = _about("Energy of the pose; lower is better.")
    confidence: float = _about("That the target is there and the pose is on it, 0 to 1.")
    feasible: bool = _about(
        "Whether it is within the limits and neither the hand nor what it holds goes through the "
        "scene cloud."
    )
    reason: str = _about("Why it is not feasible; empty if it is.")

    def __repr__(self) -> str:
        x, y, z = self.T_scene_gripper[:3, 3]
        state = "feasible" if self.feasible else self.reason
        return f"AnsweredPose({x:.3f} {y:.3f} {z:.3f} m, confidence {self.confidence:.2f}, {state})"


@dataclass(frozen=True)
class Tracking:
    """What was looked at in one frame of a stream."""

    near: bool = _about("Whether the surroundings of the last pose were looked at.")
    whole: bool = _about("Whether all of the scene was looked at.")
    parts: int = _about("How many parts of the scene were looked at beside that.")


@dataclass(frozen=True, eq=False)
class PoseAnswer:
    """Gripper poses for one step in one scene: feasible ones first, the best first among each."""

    step: str = _about("Name of the step.")
    action: str = _about("What the gripper does there: `pick` closes it, `place` opens it.")
    gripper: str = _about("Name of the gripper; empty if it is not a known hand.")
    opening: float = _about("Largest distance between its fingers, metres.")
    found: bool = _about(
        "Whether the target seems to be there: the best confidence is 0.5 or more."
    )
    chosen: int | None = _about(
        "Number of the pose to execute: feasible and sure enough. Null: execute none."
    )
    reason: str = _about("Why none is to be executed; empty if one is.")
    least_confidence: float = _about("Poses of lower confidence are never chosen.")
    poses: tuple[AnsweredPose, ...] = _about("The poses.")
    seconds: float = _about("Time that the answer took, seconds.")
    frame: str = _about("Name of the frame of the scene cloud and of all poses.", default="scene")
    stamp: float | None = _about(
        "When the scene was observed, seconds since 1970, as the caller said. Null: not said.",
        default=None,
    )
    warnings: tuple[str, ...] = _about(
        "In what the scene is unlike those of training, a sentence each.", default=()
    )
    tracking: Tracking | None = _about(
        "What was looked at, if the scene is a frame of a stream; else null.", default=None
    )

    @property
    def best(self) -> AnsweredPose | None:
        """The pose to execute, or None."""
        return None if self.chosen is None else self.poses[self.chosen]

    def __len__(self) -> int:
        return len(self.poses)

    def __repr__(self) -> str:
        feasible = sum(pose.feasible for pose in self.poses)
        told = f"{len(self)} poses, {feasible} feasible, {self.seconds:.2f} s"
        what = f"best {self.best!r}" if self.best is not None else f"none to execute: {self.reason}"
        return f"PoseAnswer(step {self.step!r}, {told}, {what})"


def answer_to_json(answer: PoseAnswer) -> str:
    """The answer as one line of strict JSON."""
    head = {"format": FORMAT, "version": VERSION, "units": UNITS}
    return json.dumps({**head, **_as_dict(answer)}, allow_nan=False)


def _as_dict(value: Any) -> dict[str, Any]:
    return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, AnsweredPose | Tracking):
        return _as_dict(value)
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value


def answer_from_json(text: str, address: str = "the answer") -> PoseAnswer:
    """Read what `answer_to_json` wrote.

    Args:
        text: One JSON object.
        address: Where it comes from, for messages.

    Raises:
        FileFormatError: It is something else, of another version, or not strict JSON.
    """
    found = Fields(parse_json(text, address), address, FileFormatError)
    name, version = found.text("format"), found.integer("version")
    if name != FORMAT or version != VERSION:
        raise FileFormatError(
            f"{address}: has the format {name!r}, version {version}: need {FORMAT!r}, version "
            f"{VERSION}; use the same version of handful on both sides."
        )
    if found.any("units") != UNITS:
        raise FileFormatError(f"{address}: has other units than {UNITS}.")
    answer = PoseAnswer(
        step=found.text("step"),
        action=found.text("action"),
        gripper=found.text("gripper"),
        opening=found.number("opening"),
        found=found.flag("found"),
        chosen=None if found.any("chosen") is None else found.integer("chosen"),
        reason=found.text("reason"),
        least_confidence=found.number("least_confidence"),
        poses=tuple(_pose(value, where) for where, value in found.items("poses")),
        seconds=found.number("seconds"),
        frame=found.text("frame"),
        stamp=_number_or_none(found, "stamp"),
        warnings=tuple(_text(value, where) for where, value in found.items("warnings")),
        tracking=_tracking(found),
    )
    found.done()
    if answer.chosen is not None and not 0 <= answer.chosen < len(answer.poses):
        raise FileFormatError(f"{address}: chosen is {answer.chosen} of {len(answer)} poses.")
    return answer


def _pose(value: Any, address: str) -> AnsweredPose:
    found = Fields(value, address, FileFormatError)
    pose = AnsweredPose(
        T_scene_pre=_matrix(found, "T_scene_pre"),
        T_scene_gripper=_matrix(found, "T_scene_gripper"),
        T_scene_retreat=_matrix(found, "T_scene_retreat"),
        width_before=_number_or_none(found, "width_before"),
        width_after=_number_or_none(found, "width_after"),
        energy=found.number("energy"),
        confidence=found.number("confidence"),
        feasible=found.flag("feasible"),
        reason=found.text("reason"),
    )
    found.done()
    return pose


def _tracking(found: Fields) -> Tracking | None:
    value = found.any("tracking")
    if value is None:
        return None
    inner = Fields(value, f"{found.address}: tracking", FileFormatError)
    tracking = Tracking(inner.flag("near"), inner.flag("whole"), inner.integer("parts"))
    inner.done()
    return tracking


def _number_or_none(found: Fields, name: str) -> float | None:
    return None if found.any(name) is None else found.number(name)


def _text(value: Any, address: str) -> str:
    if not isinstance(value, str):
        raise FileFormatError(f"{address}: need a string.")
    return value


def _matrix(found: Fields, name: str) -> Float[np.ndarray, "4 4"]:
    rows = found.any(name)
    plain = isinstance(rows, list) and all(
        isinstance(row, list) and all(type(one) in (int, float) for one in row) for row in rows
    )
    if plain and [len(row) for row in rows] == [4, 4, 4, 4]:
        matrix = np.array(rows, dtype=np.float64)
        if math.isfinite(float(np.abs(matrix).max())):
            return matrix
    raise FileFormatError(f"{found.address}: field {name!r}: need four rows of four numbers.")
