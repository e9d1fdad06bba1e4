"""Checks of a pose in words and colours."""

from __future__ import annotations

from collections.abc import Sequence

from handful.apps.studio._hand import DOUBTFUL, FINE, WRONG
from handful.apps.studio._words import plain
from handful.checks import Check, Measure
from handful.render import Color

_FINE = {
    Check.CONTACT: "something is between the fingers",
    Check.HAND: "the hand is free of the scene",
    Check.BELOW: "nothing is below the table",
    Check.APPROACH: "the approach is free",
    Check.FINGERS: "what is held is at the fingers",
    Check.HELD: "what is held is at the scene",
    Check.LEVEL: "z is up",
}

Told = Sequence[tuple[Measure, str]]


def judged(told: Told) -> Color:
    """The colour of the hand: green, amber or red."""
    if any(one.wrong for one, _ in told):
        return WRONG
    return DOUBTFUL if any(one.doubtful for one, _ in told) else FINE


def told_checks(told: Told) -> str:
    """The checks for a panel, the worst first."""
    lines = [
        f"**{'Wrong' if one.wrong else 'Look'}:** {plain(words)}."
        for one, words in told
        if one.doubtful
    ]
    fine = [_FINE[one.check] for one, _ in told if not one.doubtful and one.check in _FINE]
    if fine:
        lines.append(f"Fine: {plain('; '.join(fine))}.")
    return "\n\n".join(lines) or "Nothing to check."
