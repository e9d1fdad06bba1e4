"""The checks of a demonstration set, in words: the worst first, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from handful.checks._diagnosis import Diagnosis, diagnose
from handful.checks._limits import Check, Measure
from handful.checks._measure import forget, measures
from handful.checks._recorded import Recorded
from handful.demos import DemoSet

_FOUND = {
    Check.CONTACT: "there are no scene points between the open fingers; the nearest is {cm} beside",
    Check.HAND: "{n} points of the scene are inside of the hand (each 4 mm from the next)",
    Check.BELOW: "{share} of the hand and of what it holds is below the table",
    Check.APPROACH: "on its last 8 cm along the approach the hand goes through {n} scene points",
    Check.NO_GRASP: "there is no grasp cloud, and something is in the gripper",
    Check.FINGERS: "the grasp cloud has nothing between the fingers; the nearest is {cm} beside",
    Check.HELD: "what is held ends {cm} from the nearest scene point",
    Check.TAKEN: "{share} of what the gripper holds afterwards was not seen where it was taken",
    Check.LEVEL: "the largest surface is tilted by {degrees} against z",
    Check.SEES_HAND: "the scene cloud shows the hand at its target: {share} of its surface",
    Check.ALIKE: "the demonstrations differ by {cm} in how close the hand comes to the scene",
    Check.TIP: "the contact point is {cm} in front of the described fingers",
    Check.AXIS: "the described fingers are {degrees} beside the opening axis",
    Check.SHAPE: "the grasp clouds show a hand that is turned by 90 degrees ({share} of it)",
}

_TO_DO = {
    Check.CONTACT: "Check the pose and the gripper's `contact`; a transparent thing has no points.",
    Check.HAND: "Check the pose, and the gripper's shape and opening.",
    Check.BELOW: "Check the pose.",
    Check.APPROACH: "If the hand came another way, all is well.",
    Check.NO_GRASP: "Record what the gripper holds, in the gripper frame.",
    Check.FINGERS: "Grasp clouds are in the gripper frame; check it and the gripper's `contact`.",
    Check.HELD: "If things are let go at that height, all is well; else check pose and grasp.",
    Check.TAKEN: "Check the pose, the frame of the grasp cloud, and that it shows the thing taken.",
    Check.LEVEL: "Bring clouds and poses into a frame with z up; if it is a wall, all is well.",
    Check.SEES_HAND: "Record the scene before the hand is in it, or cut the hand out.",
    Check.ALIKE: "Look at the picture: one of them may show another step or be badly recorded.",
    Check.TIP: "Measure the gripper: `contact` is between the finger tips.",
    Check.AXIS: "Change `axis` of the gripper, or the `side` of its boxes.",
    Check.SHAPE: "Change `axis` of the gripper, or turn its shape.",
}


@dataclass(frozen=True)
class Problem:
    """One kind of thing that is wrong, or doubtful, in some demonstrations of one step.

    Attributes:
        check: Of which kind.
        step: Name of the step; empty for the gripper.
        found: The measures beyond their limit, the worst first.
        of: How many demonstrations have that step.
    """

    check: Check
    step: str
    found: tuple[Measure, ...]
    of: int

    @property
    def wrong(self) -> bool:
        """Whether training is stopped for it."""
        return self.found[0].wrong

    @property
    def worst(self) -> Measure:
        """The worst measure."""
        return self.found[0]

    def __str__(self) -> str:
        demos = len({one.demo for one in self.found if one.demo})
        where = f"{self.step}" if self.step else "gripper"
        if demos:
            where += f" ({demos} of {self.of} demonstrations, worst {self.worst.demo})"
        return f"{where}: {told_amount(self.worst)}. {_TO_DO[self.check]}"


@dataclass(frozen=True)
class CheckReport:
    """What the checks say of a demonstration set.

    Attributes:
        problems: The worst first.
        diagnosis: The usual mistake that explains them, if one does.
        demos: How many demonstrations there are.
    """

    problems: tuple[Problem, ...]
    diagnosis: Diagnosis | None
    demos: int

    @property
    def wrong(self) -> bool:
        """Whether training should not begin."""
        return any(problem.wrong for problem in self.problems)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if not self.problems:
            return f"{self.demos} demonstrations checked: poses and clouds fit each other."
        if not self.wrong:
            return f"{self.demos} demonstrations checked: usable, but look at the following."
        return f"{self.demos} demonstrations checked: something is wrong; do not train on them."

    @property
    def advice(self) -> str:
        """The mistake and its cure, or nothing."""
        if self.diagnosis is None:
            return ""
        mistake, where = self.diagnosis.mistake, self.diagnosis.where
        told = f"{mistake.told}{f' ({where})' if where else ''}"
        if self.diagnosis.sure:
            return f"Probably {told}. With that undone, everything fits. Cure: {mistake.cure}."
        return f"A guess: {told}. Cure: {mistake.cure}."


def check_demos(demos: DemoSet) -> CheckReport:
    """Measure a demonstration set, and look for the usual mistakes where something is wrong."""
    recorded = Recorded.of(demos)
    try:
        found = measures(recorded)
        return CheckReport(tuple(_problems(found, recorded)), diagnose(recorded, found), len(demos))
    finally:
        forget()


def _problems(found: Sequence[Measure], recorded: Recorded) -> list[Problem]:
    groups: dict[tuple[Check, str], list[Measure]] = {}
    for one in found:
        if one.doubtful:
            groups.setdefault((one.check, one.step), []).append(one)
    problems = [
        Problem(
            check,
            step,
            tuple(sorted(group, key=lambda one: -one.amount)),
            sum(shown.step == step for shown in recorded.steps),
        )
        for (check, step), group in groups.items()
    ]
    return sorted(problems, key=lambda one: (not one.wrong, -one.worst.cost, -len(one.found)))


def told_amount(one: Measure) -> str:
    return _FOUND[one.check].format(
        cm=f"{100.0 * one.amount:.1f} cm",
        n=round(one.amount),
        share=f"{100.0 * one.amount:.0f}%",
        degrees=f"{one.amount:.0f} degrees",
    )
