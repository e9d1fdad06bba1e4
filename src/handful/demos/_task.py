"""A task as data: named steps in order, and what the gripper does at each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from handful.errors import DemoError, unknown_name_message

RESERVED = ("bench", "curve", "demos", "report")
"""Folders of a run, where models are stored by the name of their step."""

MAX_STEPS = 64
"""Of one task."""

_NAME = re.compile(r"\w(?:[\w .-]{0,62}[\w-])?")


class Action(Enum):
    """What the gripper does when it has reached the pose of a step."""

    PICK = "pick"
    PLACE = "place"

    @property
    def holding(self) -> bool:
        """Whether something is in the gripper on the way there: it will be let go, not taken."""
        return self is Action.PLACE

    @classmethod
    def named(cls, name: str) -> Action:
        """The action of that name.

        Raises:
            DemoError: There is none.
        """
        try:
            return cls(name)
        except ValueError as error:
            valid = [action.value for action in cls]
            raise DemoError(unknown_name_message("action", name, valid)) from error


@dataclass(frozen=True)
class TaskStep:
    """One pose to reach, and one action of the gripper there.

    Attributes:
        name: Free, and unique in its task: letters, digits, spaces, `_`, `-` and `.`. Models,
            results and pictures are stored by it.
        action: What the gripper does there.
    """

    name: str
    action: Action

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise DemoError(
                f"step name {self.name[:80]!r}: use 1 to 64 letters, digits, spaces, '_', '-' or "
                "'.', beginning with a letter or digit and ending with neither a space nor '.'."
            )
        if self.name.lower() in RESERVED:
            raise DemoError(
                f"step name {self.name!r} is the name of a folder that every run has: use another, "
                f"not one of {', '.join(RESERVED)}."
            )


@dataclass(frozen=True)
class Task:
    """The steps of a task in the order in which a robot does them.

    Attributes:
        steps: One or more, with different names. Actions may repeat.
    """

    steps: tuple[TaskStep, ...]

    def __post_init__(self) -> None:
        names = [step.name.lower() for step in self.steps]
        if not names or len(set(names)) != len(names):
            raise DemoError(f"steps {self.names}: need one or more, no two of the same name.")
        if len(names) > MAX_STEPS:
            raise DemoError(f"a task has {len(names)} steps: need at most {MAX_STEPS}.")

    def __iter__(self) -> Iterator[TaskStep]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the steps in order."""
        return tuple(step.name for step in self.steps)

    def step(self, name: str) -> TaskStep:
        """The step of that name.

        Raises:
            DemoError: There is none.
        """
        for step in self.steps:
            if step.name == name:
                return step
        raise DemoError(unknown_name_message("step", name, self.names))
