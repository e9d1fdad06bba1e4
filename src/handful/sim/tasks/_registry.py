"""Tasks by name."""

from __future__ import annotations

from handful.errors import OptionError, unknown_name_message
from handful.sim.tasks._bottle import BottleTask
from handful.sim.tasks._bowl import BowlTask
from handful.sim.tasks._mug import MugTask
from handful.sim.tasks._task import Task

TASKS: dict[str, Task] = {task.name: task for task in (MugTask(), BowlTask(), BottleTask())}
"""Closed registry."""


def task_named(name: str) -> Task:
    """The task of that name.

    Raises:
        OptionError: There is none.
    """
    if name not in TASKS:
        raise OptionError(unknown_name_message("task", name, TASKS))
    return TASKS[name]
