"""A folder of PLY or PCD clouds and one file of poses, CSV or JSON, as people record them.

One row (CSV) or object (JSON) gives one target pose: `demo` and `step` say which step it belongs
to, `scene` and optionally `grasp` name the clouds, relative to the folder. Rows of the same step
add target poses to it, and steps are done in the order in which they first appear. `action` says
what the gripper does there; steps named `pick` and `place` need none. The quaternion's order is in
the field names:

    demo,step,action,scene,grasp,x,y,z,qw,qx,qy,qz
    cup_1,take cup,pick,cup_1/scene.pcd,,0.1,0.0,0.25,0,1,0,0
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from handful._checks import check_scale
from handful._files import read_bytes
from handful._strict_json import MAX_JSON_BYTES, Fields, read_json
from handful.demos._cloud_folder import CloudFolder
from handful.demos._gripper import Gripper
from handful.demos._poses import QUATERNION_ORDERS, pose_from_json, pose_matrix
from handful.demos._task import Action
from handful.demos._types import Demonstration, DemoSet, Step
from handful.errors import DemoError, FileFormatError, errors_at, unknown_name_message

_CSV_REQUIRED = ("demo", "step", "scene", "x", "y", "z", "qw", "qx", "qy", "qz")
_CSV_COLUMNS = (*_CSV_REQUIRED, "action", "grasp")
MAX_POSES = 20_000
"""Rows of a file of poses; each takes 0.2 ms and 2.5 kB."""


@dataclass(frozen=True, eq=False)
class _PosedRow:
    """One line of the poses file."""

    address: str
    demo: str
    step: str
    action: str
    scene: str
    grasp: str
    pose: Float[np.ndarray, "4 4"]


def import_posed_clouds(
    folder: str | Path,
    poses: str | Path,
    *,
    gripper: Gripper,
    scale: float = 1.0,
) -> DemoSet:
    """Demonstrations from a folder of PLY or PCD clouds and a poses file.

    Args:
        folder: Where the clouds are.
        poses: The CSV or JSON file, see this module's text.
        gripper: What the demonstrations were shown with, in metres whatever the scale.
        scale: Multiplies cloud and pose positions, for files that are not in metres.
    """
    check_scale(scale)
    path = Path(poses)
    readers = {".csv": _read_csv, ".json": _read_json}
    if path.suffix.lower() not in readers:
        raise DemoError(f"{path}: need a .csv or .json file of poses.")
    rows = readers[path.suffix.lower()](path)
    if not rows:
        raise DemoError(f"{path}: has no poses.")
    demonstrations: dict[str, dict[str, list[_PosedRow]]] = {}
    for row in rows:
        demonstrations.setdefault(row.demo, {}).setdefault(row.step, []).append(row)
    clouds = CloudFolder(Path(folder), scale)
    shown = tuple(
        _demonstration(name, list(steps.values()), clouds, scale)
        for name, steps in demonstrations.items()
    )
    with errors_at(path):
        return DemoSet(shown, gripper)


def _demonstration(
    name: str, steps: list[list[_PosedRow]], clouds: CloudFolder, scale: float
) -> Demonstration:
    built = tuple(_step(rows, clouds, scale) for rows in steps)
    with errors_at(steps[0][0].address):
        return Demonstration(name, built)


def _step(rows: list[_PosedRow], clouds: CloudFolder, scale: float) -> Step:
    first = rows[0]
    for row in rows[1:]:
        if (row.action, row.scene, row.grasp) != (first.action, first.scene, first.grasp):
            raise DemoError(
                f"{row.address}: step {row.step!r} of {row.demo!r} names another action or "
                f"other clouds than {first.address}: a step has one action, one scene and one "
                "grasp cloud."
            )
    targets = np.stack([row.pose for row in rows])
    targets[:, :3, 3] *= scale
    scene = clouds.read(first.scene, first.address)
    grasp = clouds.read(first.grasp, first.address) if first.grasp else None
    with errors_at(first.address):
        return Step(first.step, _action(first), scene, targets, grasp)


def _action(row: _PosedRow) -> Action:
    """The action of a row; without one, the step must be named after its action."""
    if row.action:
        return Action.named(row.action)
    if row.step in {action.value for action in Action}:
        return Action.named(row.step)
    raise DemoError(
        f"step {row.step!r} has no action: add the column or field 'action' with 'pick' if the "
        "gripper closes there, or 'place' if it opens; only steps named pick and place need none."
    )


def _read_csv(path: Path) -> list[_PosedRow]:
    content = read_bytes(path, MAX_JSON_BYTES)
    try:
        stream = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
        reader = csv.DictReader(stream, skipinitialspace=True)
        _check_columns(path, reader.fieldnames or [])
        rows: list[_PosedRow] = []
        for row in reader:
            _check_count(path, len(rows) + 1)
            rows.append(_csv_row(f"{path}: line {reader.line_num}", row))
        return rows
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path}: not a CSV text file: {error}.") from error


def _check_columns(path: Path, names: Any) -> None:
    for name in names:
        if ";" in name or "\t" in name:
            raise DemoError(f"{path}: the first line is {name[:48]!r}: separate cells by commas.")
        if name not in _CSV_COLUMNS:
            raise DemoError(f"{path}: {unknown_name_message('column', str(name), _CSV_COLUMNS)}")
        if list(names).count(name) > 1:
            raise DemoError(f"{path}: the first line has the column {name!r} more than once.")
    missing = [name for name in _CSV_REQUIRED if name not in names]
    if missing:
        raise DemoError(f"{path}: the first line lacks the columns {', '.join(missing)}.")


def _check_count(path: Path, count: int) -> None:
    if count > MAX_POSES:
        raise DemoError(f"{path}: has more than {MAX_POSES} poses: split the demonstrations.")


def _csv_row(address: str, row: dict[str | Any, str | Any]) -> _PosedRow:
    if None in row or None in row.values():
        raise DemoError(f"{address}: has another number of cells than the first line.")
    position = [_csv_number(address, row, name) for name in ("x", "y", "z")]
    quaternion = [_csv_number(address, row, name) for name in ("qw", "qx", "qy", "qz")]
    pose = pose_matrix(position, quaternion, "quat_wxyz", address)
    return _PosedRow(
        address,
        row["demo"],
        row["step"],
        row.get("action", ""),
        row["scene"],
        row.get("grasp", ""),
        pose,
    )


def _csv_number(address: str, row: dict[str | Any, str | Any], name: str) -> float:
    try:
        return float(row[name])
    except ValueError as error:
        raise DemoError(f"{address}: {name} is {row[name][:48]!r}: need a number.") from error


def _read_json(path: Path) -> list[_PosedRow]:
    values = read_json(path)
    if not isinstance(values, list):
        raise DemoError(f"{path}: need a list of objects, one for each target pose.")
    _check_count(path, len(values))
    return [_json_row(f"{path}: [{index}]", value) for index, value in enumerate(values)]


def _json_row(address: str, value: Any) -> _PosedRow:
    fields = Fields(value, address, DemoError)
    demo, step, scene = fields.text("demo"), fields.text("step"), fields.text("scene")
    action, grasp = fields.text("action", ""), fields.text("grasp", "")
    if fields.has("matrix"):
        pose = pose_from_json(fields.any("matrix"), f"{address}: matrix")
    else:
        position = fields.any("position")
        order = fields.choose(QUATERNION_ORDERS)
        pose = pose_matrix(position, fields.any(order), order, address)
    fields.done()
    return _PosedRow(address, demo, step, action, scene, grasp, pose)
