"""Users' meshes as objects of a task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from handful.errors import OptionError
from handful.sim.objects import Refused, Thing, read_things
from handful.sim.tasks._registry import task_named
from handful.sim.tasks._sim_task import SimTask


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


def folders_of_objects(folder: Path, task: SimTask) -> dict[str, Path]:
    """Where the meshes of each object of a task are, by kind of object.

    For a task with one object this is the folder itself. For a task with several, each kind has a
    folder in it; kinds without one keep the task's own objects.

    Raises:
        OptionError: There is no folder for any kind of object.
    """
    kinds = [part.what.kind for part in task.parts]
    if len(kinds) == 1:
        return {kinds[0]: folder}
    found = {kind: folder / kind for kind in kinds if (folder / kind).exists()}
    if not found:
        raise OptionError(
            f"{folder}: has no meshes for the task {task.name!r}: need one or more of the folders "
            f"{' and '.join(kinds)} in it."
        )
    return found
