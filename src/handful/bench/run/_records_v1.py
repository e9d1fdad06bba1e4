"""Episodes as version 1 of the store wrote them: one pick, one place, one object."""

from __future__ import annotations

from typing import Any

from handful.errors import FileFormatError
from handful.policy import StepFailure

STEPS = ("pick", "place")
"""The steps that every task of version 1 had."""

_NO_LAYOUT = "no layout"
_FAILURES = {
    f"{step}: {words}": (step, kind)
    for step, held in (("pick", "object not held"), ("place", "object not held by the target"))
    for words, kind in (
        ("no pose proposed", StepFailure.NOT_PROPOSED),
        ("no proposed pose is feasible", StepFailure.INFEASIBLE),
        ("went to something else", StepFailure.AWAY),
        (held, StepFailure.LOST),
    )
}
"""Step and kind of failure by the text that version 1 wrote."""


def record_values_of_version_1(value: Any, address: str) -> Any:
    """The values of an episode in the present version; what is not an episode stays as it is.

    Args:
        value: The parsed line of a file of version 1.
        address: Where the line stands, for messages.

    Raises:
        FileFormatError: The kind of failure is none that version 1 had.
    """
    if not isinstance(value, dict):
        return value
    values = dict(value)
    failure = _failure(values.get("failure"), address)
    steps = []
    for name in STEPS:
        if name not in values:
            raise FileFormatError(f"{address}: field {name!r} is missing: need an object or null.")
        step = values.pop(name)
        if step is not None:
            steps.append(_step(step, name, failure, f"{address}: {name}"))
    if "thing" in values:
        thing = values.pop("thing")
        values["things"] = [thing] if thing else []
    return {**values, "planned": list(STEPS), "failure": failure, "steps": steps}


def _failure(text: Any, address: str) -> dict[str, str] | None:
    if text in ("", _NO_LAYOUT):
        return None
    if not isinstance(text, str) or text not in _FAILURES:
        raise FileFormatError(
            f"{address}: field 'failure' is {str(text)[:80]!r}: need '', {_NO_LAYOUT!r}, or one of "
            f"{', '.join(map(repr, _FAILURES))}."
        )
    step, kind = _FAILURES[text]
    return {"step": step, "kind": kind.value}


def _step(value: Any, name: str, failure: dict[str, str] | None, address: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FileFormatError(f"{address}: need an object with the record of the {name}, or null.")
    values = dict(value)
    if "pose" in values:
        values["T_scene_gripper"] = values.pop("pose")
    failed = failure is not None and failure["step"] == name
    return {**values, "name": name, "failure": failure["kind"] if failed and failure else None}
