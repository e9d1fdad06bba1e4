"""Users' meshes as objects of a task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from handful.errors import OptionError
from handful.sim.objects import Refused, Thing, read_things
from handful.sim.tasks._registry import task_named


def load_things(
    folder: Path, task: str, on_progress: Callable[[str], None] | None = None
) -> tuple[list[Thing], list[Refused]]:
    """Every mesh of a folder (or one file) that can be used for a task, and why the others cannot.

    Args:
        folder: With OBJ, STL, PLY or GLB files, in metres, z up.
        task: A task of one object: `mug`, `bowl` or `bottle`.
        on_progress: Told the name of each mesh before it is read.

    Raises:
        OptionError: There is nothing to read, no such task, or the task has several objects.
    """
    chosen = task_named(task)
    if len(chosen.parts) > 1:
        kinds = ", ".join(part.what.kind for part in chosen.parts)
        raise OptionError(
            f"task {task!r} has several objects: read meshes for the task of each ({kinds})."
        )
    what = chosen.parts[0].what
    read, refused = read_things(folder, what.kind, on_progress)
    things = []
    for path, thing in read:
        verdict = what.suits(thing)
        if verdict:
            things.append(thing)
        else:
            refused.append(Refused(path, verdict.reason))
    return things, refused
