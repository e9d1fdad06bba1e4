"""The demonstration folder: a small JSON manifest and PLY clouds that any viewer opens.

`docs/demonstrations.md` describes the format for people who write it by hand.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from handful._files import atomic_write_text, staged_folder
from handful._strict_json import Fields, read_json
from handful.clouds import PointCloud, write_cloud
from handful.demos._cloud_folder import CloudFolder
from handful.demos._gripper import Gripper, gripper_from_tip
from handful.demos._poses import pose_from_json
from handful.demos._task import Action
from handful.demos._types import Demonstration, DemoSet, Step
from handful.errors import DemoError, errors_at

MANIFEST = "demos.json"
FORMAT = "handful-demos"
VERSION = 1


def load_demos(folder: str | Path) -> DemoSet:
    """Read a demonstration folder and check all of it.

    Args:
        folder: The folder, or its manifest.

    Raises:
        HandfulError: Something is wrong; the message names the file and the field.
    """
    path = Path(folder)
    manifest = path if path.name == MANIFEST else path / MANIFEST
    if not manifest.is_file():
        raise DemoError(
            f"{path}: no {MANIFEST} there. Give a demonstration folder; make one with "
            "`handful sample --out DIR` or `handful import`."
        )
    fields = Fields(read_json(manifest), str(manifest), DemoError)
    _check_version(fields)
    description = fields.text("description", "")
    gripper = _read_gripper(fields)
    clouds = CloudFolder(manifest.parent)
    demonstrations = tuple(
        _read_demonstration(value, address, clouds)
        for address, value in fields.items("demonstrations")
    )
    fields.done()
    with errors_at(manifest):
        return DemoSet(demonstrations, gripper, description)


def save_demos(demos: DemoSet, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write a demonstration folder, whole or not at all.

    Args:
        demos: What to write.
        folder: Where; must not exist, be empty, or (with `overwrite`) be a demonstration folder.
        overwrite: Replace a demonstration folder that is there.

    Returns:
        The folder.
    """
    target = Path(folder)
    _check_replaceable(target, overwrite)
    with staged_folder(target) as staging:
        entries = [_write_demonstration(demonstration, staging) for demonstration in demos]
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "description": demos.description,
            "gripper": asdict(demos.gripper),
            "demonstrations": entries,
        }
        atomic_write_text(staging / MANIFEST, _readable_json(manifest))
    return target


# --- reading -----------------------------------------------------------------------------------


def _check_version(fields: Fields) -> None:
    name, version = fields.text("format"), fields.integer("version")
    if name != FORMAT:
        raise DemoError(f"{fields.address}: field 'format' is {name!r}: need {FORMAT!r}.")
    if version != VERSION:
        raise DemoError(
            f"{fields.address}: field 'version' is {version}; this handful reads version {VERSION}."
        )


def _read_gripper(fields: Fields) -> Gripper:
    address = f"{fields.address}: gripper"
    values = Fields(fields.any("gripper"), address, DemoError)
    tip = values.number("tip", 0.15)
    opening = values.number("opening", 0.08)
    axis = values.text("axis", "x")
    values.done()
    with errors_at(address):
        return gripper_from_tip(tip, opening, axis)


def _read_demonstration(value: Any, address: str, clouds: CloudFolder) -> Demonstration:
    fields = Fields(value, address, DemoError)
    name = fields.text("name")
    steps = tuple(_read_step(step, where, clouds) for where, step in fields.items("steps"))
    fields.done()
    with errors_at(address):
        return Demonstration(name, steps)


def _read_step(value: Any, address: str, clouds: CloudFolder) -> Step:
    fields = Fields(value, address, DemoError)
    name = fields.text("name")
    scene = _read_member(fields, "scene", clouds)
    grasp = _read_member(fields, "grasp", clouds) if fields.has("grasp") else None
    targets = [pose_from_json(pose, where) for where, pose in fields.items("targets")]
    fields.done()
    with errors_at(address):
        return Step(name, Action.named(name), scene, targets, grasp)


def _read_member(fields: Fields, name: str, clouds: CloudFolder) -> PointCloud:
    relative, where = fields.text(name), f"{fields.address}: field {name!r}"
    if Path(relative).is_absolute():
        raise DemoError(f"{where}: {relative!r} leads out of the demonstration folder.")
    return clouds.read(relative, where)


# --- writing -----------------------------------------------------------------------------------


def _check_replaceable(target: Path, overwrite: bool) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise DemoError(f"{target}: is a file: name a folder.")
    if not any(target.iterdir()):
        return
    if not (target / MANIFEST).is_file():
        raise DemoError(f"{target}: is not empty and no demonstration folder: name another.")
    if not overwrite:
        raise DemoError(f"{target}: exists already: name another folder, or say --overwrite.")


def _write_demonstration(demonstration: Demonstration, root: Path) -> dict[str, Any]:
    (root / demonstration.name).mkdir()
    return {
        "name": demonstration.name,
        "steps": [_write_step(step, demonstration.name, root) for step in demonstration.steps],
    }


def _write_step(step: Step, folder: str, root: Path) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": step.name}
    for role, cloud in (("scene", step.scene), ("grasp", step.grasp)):
        if cloud is not None:
            entry[role] = f"{folder}/{step.name}_{role}.ply"
            write_cloud(cloud, root / entry[role])
    return {**entry, "targets": step.targets.tolist()}


def _readable_json(manifest: dict[str, Any]) -> str:
    """Indented JSON with each row of numbers on one line."""
    text = json.dumps(manifest, indent=2)
    # A line end stands in no text of JSON, so that only lists begin like this.
    return re.sub(r"\[\n\s*([-+.\deE,\s]+?)\s+\]", _on_one_line, text) + "\n"


def _on_one_line(row: re.Match[str]) -> str:
    return "[" + " ".join(row[1].split()) + "]"
