"""Demonstrations as named arrays: what NPZ files hold and other formats are turned into.

The arrays of one demonstration, for each of its steps:

    {step}_scene_points [n, 3]    {step}_scene_colors [n, 3] (may be missing)
    {step}_grasp_points [m, 3]    {step}_grasp_colors [m, 3] (both may be missing)
    {step}_target_poses [k, 4, 4], or {step}_target_pose_wxyz_xyz [k, 7], or ..._xyzw_xyz [k, 7]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from handful.clouds import PointCloud
from handful.demos._gripper import Gripper
from handful.demos._poses import pose_matrix
from handful.demos._task import Task, TaskStep
from handful.demos._types import Demonstration, DemoSet, Step
from handful.errors import DemoError, errors_at

SCENE_POINTS = "_scene_points"
ARRAY_ENDINGS = (
    SCENE_POINTS,
    "_scene_colors",
    "_grasp_points",
    "_grasp_colors",
    "_target_poses",
    "_target_pose_wxyz_xyz",
    "_target_pose_xyzw_xyz",
)


@dataclass(frozen=True, eq=False)
class Recording:
    """The arrays of one demonstration.

    Attributes:
        path: The file that they come from; its name becomes the demonstration's.
        task: The steps in order.
        arrays: Arrays by the names that this module's text gives.
    """

    path: Path
    task: Task
    arrays: Mapping[str, Any]


def demo_set_from_recordings(
    recordings: Iterable[Recording], scale: float, gripper: Gripper
) -> DemoSet:
    """A set of one demonstration for each recording; errors name the file."""
    demonstrations = []
    for recording in recordings:
        with errors_at(recording.path):
            steps = tuple(_step(step, recording.arrays, scale) for step in recording.task)
            demonstrations.append(Demonstration(recording.path.stem, steps))
    return DemoSet(tuple(demonstrations), gripper)


def source_files(source: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The file itself, or a folder's files with one of the suffixes, demo_2 before demo_10."""
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise DemoError(f"{source}: no such file or folder.")
    files = [path for path in source.rglob("*") if path.suffix.lower() in suffixes]
    if not files:
        raise DemoError(f"{source}: no {' or '.join(suffixes)} file in it.")
    return sorted(files, key=_natural_order)


def _natural_order(path: Path) -> list[Any]:
    parts = re.split(r"(\d+)", str(path))
    return [int(part) if part.isdecimal() else part for part in parts]


def _step(step: TaskStep, arrays: Mapping[str, Any], scale: float) -> Step:
    name = step.name
    scene = _cloud(f"{name}_scene", arrays, scale)
    grasp = _cloud(f"{name}_grasp", arrays, scale) if f"{name}_grasp_points" in arrays else None
    targets = _targets(name, arrays)
    targets[:, :3, 3] *= scale
    return Step(name, step.action, scene, targets, grasp)


def _cloud(prefix: str, arrays: Mapping[str, Any], scale: float) -> PointCloud:
    points, colors = np.asarray(arrays[f"{prefix}_points"]), arrays.get(f"{prefix}_colors")
    with errors_at(f"{prefix}_points"):
        return PointCloud(points * scale if scale != 1.0 else points, colors)


def _targets(step: str, arrays: Mapping[str, Any]) -> Float[np.ndarray, "targets 4 4"]:
    matrices = f"{step}_target_poses"
    if matrices in arrays:
        return _rows(arrays[matrices], (4, 4), matrices)
    for order in ("wxyz", "xyzw"):
        name = f"{step}_target_pose_{order}_xyz"
        if name in arrays:
            rows = _rows(arrays[name], (7,), name)
            return np.stack([pose_matrix(r[4:], r[:4], f"quat_{order}", name) for r in rows])
    raise DemoError(
        f"no array {matrices!r}, '{step}_target_pose_wxyz_xyz' or '{step}_target_pose_xyzw_xyz'."
    )


def _rows(value: Any, shape: tuple[int, ...], name: str) -> Float[np.ndarray, "rows ..."]:
    """One or more rows of that shape, as a fresh float64 array."""
    try:
        rows = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DemoError(f"{name} does not hold numbers: {error}.") from error
    if rows.shape == shape:
        rows = rows[None]
    if rows.shape[1:] != shape or len(rows) == 0:
        needed = ", ".join(map(str, ("k", *shape)))
        raise DemoError(f"{name} has shape {list(rows.shape)}: need [{needed}].")
    return rows
