"""The paper authors' demonstrations: arrays in NPZ files, or their original gzip pickles."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from handful._checks import check_scale
from handful._files import open_regular
from handful.demos._gripper import ContactFrame, Gripper, HandBox, HandShape
from handful.demos._task import Action, Task, TaskStep
from handful.demos._types import DemoSet
from handful.demos.importers._arrays import (
    Recording,
    demo_set_from_recordings,
    source_files,
)
from handful.demos.importers._npz import read_npz_recording
from handful.demos.importers._tensor_pickle import read_tensor_pickle
from handful.errors import DemoError, FileFormatError

MAX_UNPACKED_BYTES = 2**30

STEP_NAMES = ("pick", "place")
"""Of the authors' task, in order."""

EDF_GRIPPER = Gripper(
    contact=ContactFrame((0.0, 0.0, 0.145)),
    axis="x",
    opening=0.08,
    shape=HandShape(
        (
            HandBox((0.0, 0.0, 0.0225), (0.075, 0.076, 0.045)),
            HandBox((0.0, 0.0, 0.05), (0.127, 0.026, 0.01)),
            HandBox((0.0, 0.0, 0.08), (0.143, 0.04, 0.05)),
            *(HandBox((s * 0.0557, 0.0, 0.1125), (0.0315, 0.028, 0.015), side=s) for s in (1, -1)),
            *(HandBox((s * 0.0468, 0.0, 0.138), (0.0136, 0.0235, 0.043), side=s) for s in (1, -1)),
        )
    ),
)
"""The authors' gripper, measured in their grasp clouds of the open hand, which begin at z = 0.02 m.

The contact is where the models of these demonstrations always had their query point.
"""


def import_edf(source: str | Path, *, scale: float = 1.0) -> DemoSet:
    """Demonstrations of the paper's authors.

    Args:
        source: A folder with `demo_*.npz` or `demo_*.gzip` files, however deep, or one such file.
        scale: Multiplies positions, for files that are not in metres.
    """
    check_scale(scale)
    files = source_files(Path(source), (".npz", ".gzip", ".gz"))
    recordings = (
        read_npz_recording(path) if path.suffix.lower() == ".npz" else _read_gzip(path)
        for path in files
    )
    return demo_set_from_recordings(recordings, scale, EDF_GRIPPER)


def _read_gzip(path: Path) -> Recording:
    """The arrays of one original file: a list of one dict of tensors for each step."""
    with open_regular(path) as file:
        try:
            with gzip.open(file, "rb") as stream:
                data = stream.read(MAX_UNPACKED_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise FileFormatError(f"{path}: not a readable gzip file: {error}") from error
    if len(data) > MAX_UNPACKED_BYTES:
        raise FileFormatError(f"{path}: unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB.")
    try:
        arrays = _named_arrays(read_tensor_pickle(data))
    except (FileFormatError, DemoError) as error:
        raise type(error)(f"{path}: {error}") from error
    names = [name for name in STEP_NAMES if f"{name}_scene_points" in arrays]
    if not names:
        raise DemoError(f"{path}: no array 'pick_scene_points'; found {sorted(arrays)}.")
    task = Task(tuple(TaskStep(name, Action.named(name)) for name in names))
    return Recording(path, task, arrays)


def _named_arrays(sequence: Any) -> dict[str, Any]:
    if not isinstance(sequence, list) or not 1 <= len(sequence) <= len(STEP_NAMES):
        raise DemoError("need a list of one or two steps, as the authors' `save_demos` writes it.")
    arrays: dict[str, Any] = {}
    for index, step in enumerate(sequence):
        if not isinstance(step, dict) or "target_poses" not in step:
            raise DemoError(f"step {index} has no 'target_poses'.")
        given = step.get("name")
        name = given if isinstance(given, str) and given in STEP_NAMES else STEP_NAMES[index]
        if f"{name}_target_pose_wxyz_xyz" in arrays:
            raise DemoError(f"step {index} is the second one of the name {name!r}.")
        arrays[f"{name}_target_pose_wxyz_xyz"] = _tensor(step, "target_poses", index)
        for key in ("scene_points", "scene_colors", "grasp_points", "grasp_colors"):
            if key in step and _tensor(step, key, index).size:
                arrays[f"{name}_{key}"] = step[key]
    return arrays


def _tensor(step: dict[Any, Any], key: str, index: int) -> np.ndarray[Any, np.dtype[Any]]:
    """A tensor of a step. Lists are refused unseen: few bytes can make one that never ends."""
    value = step[key]
    if not isinstance(value, np.ndarray):
        raise DemoError(f"step {index}: {key!r} is of type {type(value).__name__}: need a tensor.")
    return value
