"""NPZ files with the named arrays of `_arrays`, and with texts that say what the steps are.

    {step}_action    text, "pick" or "place"; steps of these two names need none
    steps            texts, the names of the steps in order; `pick` and `place` need none

Arrays whose names begin otherwise are the recorder's own affair and are passed over.
"""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

import numpy as np

from handful._checks import check_scale
from handful._files import check_regular
from handful.clouds import read_arrays
from handful.demos._gripper import Gripper
from handful.demos._task import Action, Task, TaskStep
from handful.demos._types import DemoSet
from handful.demos.importers._arrays import (
    ARRAY_ENDINGS,
    SCENE_POINTS,
    Recording,
    demo_set_from_recordings,
    source_files,
)
from handful.errors import DemoError, FileFormatError, errors_at, unknown_name_message

ORDER_ARRAY = "steps"
ACTION_ENDING = "_action"
MAX_TEXT_BYTES = 2**16

_ACTION_NAMES = tuple(action.value for action in Action)
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
)


def import_npz(source: str | Path, *, gripper: Gripper, scale: float = 1.0) -> DemoSet:
    """Demonstrations from one NPZ file, or from every NPZ file of a folder.

    Args:
        source: The file or folder.
        gripper: What the demonstrations were shown with, in metres whatever the scale.
        scale: Multiplies positions of clouds and poses, for files that are not in metres.
    """
    check_scale(scale)
    files = source_files(Path(source), (".npz",))
    return demo_set_from_recordings(map(read_npz_recording, files), scale, gripper)


def read_npz_recording(path: Path) -> Recording:
    """The arrays and the task of one file.

    Raises:
        HandfulError: The file is damaged, or its arrays do not tell a task.
    """
    check_regular(path)
    names = _array_names(path)
    with errors_at(path):
        steps = [name.removesuffix(SCENE_POINTS) for name in names if name.endswith(SCENE_POINTS)]
        _check_names(names, steps)
        wanted = tuple(name for name in names if name.endswith(ARRAY_ENDINGS))
    arrays = read_arrays(path, wanted)
    with errors_at(path):
        task = Task(tuple(TaskStep(step, _action(path, step, names)) for step in steps))
        return Recording(path, _ordered(path, task, names), arrays)


def _array_names(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return [entry.removesuffix(".npy") for entry in archive.namelist()]
    except _ZIP_ERRORS as error:
        raise FileFormatError(f"{path}: the zip archive is damaged: {error}.") from error


def _check_names(names: Collection[str], steps: list[str]) -> None:
    """Refuse a file without steps, and an array that a step would have under another name."""
    known = {
        step + ending
        for step in (*steps, *_ACTION_NAMES)
        for ending in (*ARRAY_ENDINGS, ACTION_ENDING)
    }
    begins = tuple(f"{step}_" for step in (*steps, *_ACTION_NAMES))
    for name in sorted(names):
        if name.startswith(begins) and name not in known:
            raise DemoError(unknown_name_message("array", name, known))
    if not steps:
        raise DemoError(
            "no array whose name is that of a step and '_scene_points', for example "
            f"'pick_scene_points'; found {_listed(names)}."
        )
    for name in sorted(names):
        for ending in ARRAY_ENDINGS:
            if name.endswith(ending) and name.removesuffix(ending) not in steps:
                step = name.removesuffix(ending)
                raise DemoError(f"array {name!r} has no '{step}_scene_points' beside it.")


def _listed(names: Collection[str]) -> str:
    shown = [repr(name[:48]) for name in sorted(names)[:12]]
    return ", ".join(shown) if shown else "nothing"


def _action(path: Path, step: str, names: Collection[str]) -> Action:
    array = step + ACTION_ENDING
    if array in names:
        texts = _texts(path, array)
        with errors_at(array):
            if len(texts) != 1:
                raise DemoError(f"holds {len(texts)} texts: need one, 'pick' or 'place'.")
            return Action.named(texts[0])
    if step in _ACTION_NAMES:
        return Action.named(step)
    raise DemoError(
        f"step {step!r} has no action: add an array {array!r} that is 'pick' if the gripper closes "
        "there, or 'place' if it opens."
    )


def _ordered(path: Path, task: Task, names: Collection[str]) -> Task:
    """The steps in the order that the file gives; a file of `pick` and `place` need not."""
    if ORDER_ARRAY in names:
        order = _texts(path, ORDER_ARRAY)
        if sorted(order) != sorted(task.names):
            raise DemoError(
                f"array 'steps' names {_listed(order)}: need each step that has arrays once, "
                f"{_listed(task.names)}."
            )
    elif len(task) == 1 or set(task.names) <= set(_ACTION_NAMES):
        order = [name for name in _ACTION_NAMES if name in task.names] or list(task.names)
    else:
        raise DemoError(
            f"the order of the steps {_listed(task.names)} is not known: add an array 'steps' with "
            "their names in the order in which they are done."
        )
    return Task(tuple(task.step(name) for name in order))


def _texts(path: Path, name: str) -> list[str]:
    """The texts of an array of type S or U; like all arrays, it is never unpickled."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
            data = file.read(MAX_TEXT_BYTES + 1)
        stream = io.BytesIO(data)
        version = np.lib.format.read_magic(stream)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, _, dtype = read_header(stream)
    except (KeyError, *_ZIP_ERRORS) as error:
        raise DemoError(f"array {name!r} cannot be read as text: {error}.") from error
    content = stream.read()
    size = math.prod(shape) * dtype.itemsize
    if dtype.kind not in "SU" or len(shape) > 1 or not 0 < size == len(content):
        raise DemoError(
            f"array {name!r} is of type {dtype} and shape {list(shape)}: need text, for example "
            f"{name}=np.array('pick')."
        )
    values = np.frombuffer(content, dtype).reshape(-1).tolist()
    return [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values]
