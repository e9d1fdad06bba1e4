"""Answers of one step together: how many are right, how exact they are, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from handful.evaluation._answers import NEAR, TURNED, Answer, Outcome
from handful.policy import SURE_ENOUGH

ENOUGH = 0.8
"""Share of right answers from which on a step is good enough to be tried on a robot, carefully."""
OVERSURE = 0.25
"""Difference between mean confidence and share of right answers that is told."""


@dataclass(frozen=True, eq=False)
class StepSummary:
    """The answers of one step.

    Attributes:
        step: Its name.
        answers: The worst first.
    """

    step: str
    answers: tuple[Answer, ...]

    @property
    def right(self) -> int:
        """How many found the demonstrated pose, or know it as one of several."""
        return sum(answer.outcome.good for answer in self.answers)

    @property
    def feasible(self) -> int:
        """How many have a pose that the hand can take."""
        return sum(answer.feasible for answer in self.answers)

    @property
    def distance(self) -> float:
        """Median of the found ones' distances, metres; NaN if none was found."""
        return _median([one.distance for one in self.found])

    @property
    def angle(self) -> float:
        """Median of the found ones' angles, radians; NaN if none was found."""
        return _median([one.angle for one in self.found])

    @property
    def confidence(self) -> float:
        """Mean."""
        return float(np.mean([answer.confidence for answer in self.answers]))

    @property
    def reliability(self) -> str:
        """How confidence compares with what was right, for people; empty where nobody asked.

        Where the target was cut out, no answer is right.
        """
        told = [one for one in self.answers if one.on_target is not None]
        without = [one.without for one in told if one.without is not None]
        if not told:
            return ""
        on = sum(bool(one.on_target) for one in told)
        mean = float(np.mean([one.confidence for one in told]))
        text = f"{on} of {len(told)} answers are on the target, mean confidence {mean:.2f}"
        if without:
            fooled = sum(one >= SURE_ENOUGH for one in without)
            text += (
                f"; with the target cut out {fooled} of {len(without)} still take something for "
                f"it, mean confidence {np.mean(without):.2f}"
            )
        return text

    @property
    def found(self) -> list[Answer]:
        """Those that are as demonstrated."""
        good = (Outcome.FOUND, Outcome.UNSURE)
        return [answer for answer in self.answers if answer.outcome in good]

    @property
    def enough(self) -> bool:
        """Whether most answers are right."""
        return self.right >= ENOUGH * len(self.answers)

    def __str__(self) -> str:
        told = f"{self.step}: {self.right} of {len(self.answers)} right"
        if self.found:
            told += (
                f", off by {100 * self.distance:.1f} cm and {np.degrees(self.angle):.0f} degrees"
            )
            told += " (median of those found)"
        return f"{told}; mean confidence {self.confidence:.2f}"


def summaries_of(answers: Sequence[Answer]) -> list[StepSummary]:
    """A summary of each step, in the order in which steps first appear."""
    names = dict.fromkeys(answer.step for answer in answers)
    return [
        StepSummary(
            name,
            tuple(
                sorted((one for one in answers if one.step == name), key=lambda one: -_badness(one))
            ),
        )
        for name in names
    ]


def advice(summaries: Sequence[StepSummary], left_out: bool, steps: int | None) -> list[str]:
    """What to do next, the most important first; a sentence each.

    Args:
        summaries: Of all steps.
        left_out: Whether the models had not seen what they were asked about.
        steps: Optimiser steps, if they were not the recipe's.
    """
    told = []
    if steps is not None:
        told.append(
            f"The models were trained for {steps} steps only: this is a quick look, not a verdict."
        )
    for one in summaries:
        told += _advice_of(one, left_out)
    if all(one.enough for one in summaries) and not told:
        told.append(
            "All steps do well. Try them on the robot, slowly and with limits."
            if left_out
            else "The models know their demonstrations. How they do on others: handful evaluate."
        )
    return told


def _advice_of(one: StepSummary, left_out: bool) -> list[str]:
    told = []
    missed = [answer.demo for answer in one.answers if not answer.outcome.good]
    elsewhere = [answer for answer in one.answers if answer.outcome is Outcome.ELSEWHERE]
    many = len(one.answers)
    if missed and not left_out and not one.enough:
        told.append(
            f"Step {one.step!r}: {len(missed)} of {many} demonstrations that it was trained on are "
            f"not found again ({_names(missed)}). Check them with `handful check`; if nothing is "
            "wrong there, train longer, or show that the task is the same in all of them."
        )
    elif missed and len(missed) <= max(1, many // 4) and left_out:
        told.append(
            f"Step {one.step!r}: {_names(missed)} is not like the others. If it is right, record "
            "two or three more like it; if it is not, drop it."
        )
    elif missed and left_out:
        told.append(
            f"Step {one.step!r}: {len(missed)} of {many} left-out demonstrations were missed. "
            f"Record more demonstrations, about twice as many, that vary as {_names(missed)} do: "
            "other places, turns and things."
        )
    if elsewhere:
        told.append(
            f"Step {one.step!r}: in {len(elsewhere)} of {many} the best pose is not the "
            "demonstrated one, which it knows as well. For a thing that can be held or put in many "
            "ways (a rim, a round tray) that is right: look at the pictures. Else give all right "
            "poses as `targets`, or demonstrate one way only."
        )
    infeasible = many - one.feasible
    if infeasible:
        told.append(
            f"Step {one.step!r}: in {infeasible} of {many} the described hand can take none of the "
            "poses without going through the scene: check the gripper's shape, and the calibration "
            "with `handful check camera`."
        )
    if left_out and one.confidence - one.right / many > OVERSURE:
        told.append(
            f"Step {one.step!r} is surer than it is right ({one.confidence:.2f} against "
            f"{one.right / many:.2f}): `--calibrate RUN` corrects a run's confidence, or ask for "
            "more than the default with `least_confidence`."
        )
    return told


def _badness(answer: Answer) -> float:
    """The larger the worse: outcome first, then how far off."""
    order = [
        Outcome.FOUND, Outcome.ELSEWHERE, Outcome.UNSURE, Outcome.MISSED, Outcome.NOTHING
    ]  # fmt: skip
    off = min(answer.distance / NEAR + answer.angle / TURNED, 1e3)
    return 1e4 * order.index(answer.outcome) + off


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return shown + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if values else float("nan")
