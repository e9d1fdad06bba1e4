"""Tasks by name."""

from __future__ import annotations

from handful.errors import OptionError, unknown_name_message
from handful.sim.tasks._bottle import BottleOnTray
from handful.sim.tasks._bowl import BowlOnTray
from handful.sim.tasks._mug import MugOnHanger
from handful.sim.tasks._pick_and_place import PickAndPlace
from handful.sim.tasks._sim_task import SimTask, TaskPart


def _one_part(name: str, description: str, what: PickAndPlace) -> SimTask:
    return SimTask(name, description, (TaskPart(what, "pick", "place"),))


TASKS: dict[str, SimTask] = {
    task.name: task
    for task in (
        _one_part(
            "mug",
            "Hang a mug on a hanger by its handle (handful's simulated world).",
            MugOnHanger(),
        ),
        _one_part("bowl", "Place a bowl on a tray (handful's simulated world).", BowlOnTray()),
        _one_part(
            "bottle",
            "Place a bottle upright on a tray (handful's simulated world).",
            BottleOnTray(),
        ),
        SimTask(
            "tidy",
            "Hang a mug on a hanger, then place a bowl on a tray (handful's simulated world).",
            (
                TaskPart(MugOnHanger(), "pick mug", "hang mug"),
                TaskPart(BowlOnTray(), "pick bowl", "place bowl"),
            ),
        ),
    )
}
"""Closed registry."""


def task_named(name: str) -> SimTask:
    """The task of that name.

    Raises:
        OptionError: There is none.
    """
    if name not in TASKS:
        raise OptionError(unknown_name_message("task", name, TASKS))
    return TASKS[name]
