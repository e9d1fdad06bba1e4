"""Which hand the simulated robot carries, and which one the models were trained with."""

from __future__ import annotations

from pathlib import Path

from handful.demos import HANDS, Gripper, Task, gripper_from_tip, gripper_named
from handful.errors import OptionError
from handful.learning import RunFolder
from handful.sim import SIMULATED, check_hand

SIMULATED_IN_VERSION_1 = gripper_from_tip(tip=0.15, opening=0.08, axis="x")
"""The simulated hand as models of version 1 describe it. It has no name, and its contact is at the
finger tips, but the frame is the same: poses need not be moved."""


def trained_hand(run: Path, task: Task) -> Gripper:
    """The gripper of the demonstrations that the models of a run were trained on.

    Args:
        run: Folder of the run; it has a model for each step.
        task: The steps.
    """
    first = task.steps[0].name
    return present_description(RunFolder(run).predictor(first).trained_gripper)


def present_description(hand: Gripper) -> Gripper:
    """The hand itself, or the present description of a hand that version 1 described."""
    return SIMULATED if hand == SIMULATED_IN_VERSION_1 else hand


def hand_for_bench(name: str, trained: Gripper) -> Gripper:
    """The hand that the simulated robot carries.

    Args:
        name: Of a hand; empty for the one that the models were trained with, if it is a known hand
            that the robot can carry, and else for the simulated one.
        trained: The hand that the models were trained with.

    Raises:
        DemoError: There is no hand of that name.
        OptionError: The robot cannot carry it.
    """
    if name:
        hand = gripper_named(name)
        check_hand(hand)
        return hand
    return HANDS[trained.name] if trained.name in HANDS and _can_carry(trained) else SIMULATED


def _can_carry(hand: Gripper) -> bool:
    try:
        check_hand(HANDS[hand.name])
    except OptionError:
        return False
    return True
