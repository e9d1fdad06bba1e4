"""The demonstration folder: a small JSON manifest and PLY clouds that any viewer opens.

`docs/demonstrations.md` describes the format for people who write it by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from handful._checks import path_of
from handful._files import atomic_write_text, staged_folder
from handful._strict_json import Fields, read_json
from handful.clouds import PointCloud, write_cloud
from handful.demos._cloud_folder import CloudFolder
from handful.demos._gripper import Gripper
from handful.demos._gripper_json import (
    MESH_FILE,
    WHAT_TO_WRITE,
    gripper_from_json,
    gripper_from_json_1,
    gripper_to_json,
)
from handful.demos._poses import poses_from_json
from handful.demos._task import MAX_STEPS, Action
from handful.demos._types import MAX_DEMOS, MAX_TARGETS, Demonstration, DemoSet, Step
from handful.errors import DemoError, errors_at, unknown_name_message

MANIFEST = "demos.json"
FORMAT = "handful-demos"
VERSION = 2
VERSIONS = (1, 2)
"""Versions that are read."""

_OTHER_THAN_SAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def load_demos(folder: str | Path) -> DemoSet:
    """Read a demonstration folder and check all of it.

    Args:
        folder: The folder, or its manifest.

    Raises:
        HandfulError: Something is wrong; the message names the file and the field.
    """
    path = path_of("folder", folder)
    manifest = path if path.name == MANIFEST else path / MANIFEST
    if not manifest.is_file():
        raise DemoError(
            f"{path}: no {MANIFEST} there. Give a demonstration folder; make one with "
            "`handful sample --out DIR` or `handful import`."
        )
    fields = Fields(read_json(manifest), str(manifest), DemoError)
    version = _checked_version(fields)
    description = fields.text("description", "")
    gripper = _read_gripper(fields, version, manifest.parent)
    clouds = CloudFolder(manifest.parent)
    demonstrations = tuple(
        _read_demonstration(value, address, clouds, version)
        for address, value in fields.items("demonstrations", most=MAX_DEMOS)
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
    check_replaceable(target, MANIFEST, "demonstration folder", overwrite)
    with staged_folder(target) as staging:
        taken = {MANIFEST, MESH_FILE}
        entries = [_write_demonstration(one, staging, taken) for one in demos]
        write_manifest(demos, staging, entries)
    return target


def write_manifest(demos: DemoSet, folder: Path, entries: list[dict[str, Any]]) -> None:
    """Write the manifest of a set, in one step; its clouds are there.

    Args:
        demos: The set.
        folder: Its folder.
        entries: Of its demonstrations.
    """
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "description": demos.description,
        "gripper": gripper_to_json(demos.gripper, folder),
        "demonstrations": entries,
    }
    atomic_write_text(folder / MANIFEST, readable_json(manifest))


# --- reading -----------------------------------------------------------------------------------


def _checked_version(fields: Fields) -> int:
    name, version = fields.text("format"), fields.integer("version")
    if name != FORMAT:
        raise DemoError(f"{fields.address}: field 'format' is {name!r}: need {FORMAT!r}.")
    if version not in VERSIONS:
        known = " and ".join(map(str, VERSIONS))
        raise DemoError(
            f"{fields.address}: field 'version' is {version}; this handful reads versions {known}."
        )
    return version


def _read_gripper(fields: Fields, version: int, folder: Path) -> Gripper:
    address = f"{fields.address}: gripper"
    if version == 1:
        return gripper_from_json_1(fields.any("gripper") if fields.has("gripper") else {}, address)
    if not fields.has("gripper"):
        raise DemoError(f"{fields.address}: field 'gripper' is missing: {WHAT_TO_WRITE}.")
    return gripper_from_json(fields.any("gripper"), address, folder)


def _read_demonstration(
    value: Any, address: str, clouds: CloudFolder, version: int
) -> Demonstration:
    fields = Fields(value, address, DemoError)
    name = fields.text("name")
    steps = tuple(
        _read_step(step, where, clouds, version)
        for where, step in fields.items("steps", most=MAX_STEPS)
    )
    fields.done()
    with errors_at(address):
        return Demonstration(name, steps)


def _read_step(value: Any, address: str, clouds: CloudFolder, version: int) -> Step:
    fields = Fields(value, address, DemoError)
    name = fields.text("name")
    action = _read_action(fields, name, version)
    scene = _read_member(fields, "scene", clouds)
    grasp = _read_member(fields, "grasp", clouds) if fields.has("grasp") else None
    targets = poses_from_json(fields.items("targets", most=MAX_TARGETS))
    fields.done()
    with errors_at(address):
        return Step(name, action, scene, targets, grasp)


def _read_action(fields: Fields, name: str, version: int) -> Action:
    """The action of a step; a step of version 1 is named after its action."""
    if version == 1:
        if name not in {action.value for action in Action}:
            message = unknown_name_message("step", name, [action.value for action in Action])
            raise DemoError(f"{fields.address}: {message} Version 2 has steps of any name.")
        return Action.named(name)
    if not fields.has("action"):
        raise DemoError(
            f'{fields.address}: field \'action\' is missing: write "action": "pick" for a step '
            'at whose pose the gripper closes, or "place" for one where it opens.'
        )
    with errors_at(f"{fields.address}: field 'action'"):
        return Action.named(fields.text("action"))


def _read_member(fields: Fields, name: str, clouds: CloudFolder) -> PointCloud:
    relative, where = fields.text(name), f"{fields.address}: field {name!r}"
    if Path(relative).is_absolute():
        raise DemoError(f"{where}: {relative!r} leads out of the demonstration folder.")
    return clouds.read(relative, where)


# --- writing -----------------------------------------------------------------------------------


def check_replaceable(target: Path, manifest: str, what: str, overwrite: bool) -> None:
    """Refuse to write a folder over something else than a folder of its kind.

    Args:
        target: Where it will be.
        manifest: The file that every folder of the kind has.
        what: The kind, for messages.
        overwrite: Whether such a folder may be replaced.

    Raises:
        DemoError: Something is there that may not be replaced.
    """
    if not target.exists():
        return
    if not target.is_dir():
        raise DemoError(f"{target}: is a file: name a folder.")
    if not any(target.iterdir()):
        return
    if not (target / manifest).is_file():
        raise DemoError(f"{target}: is not empty and no {what}: name another.")
    if not overwrite:
        raise DemoError(f"{target}: exists already: name another folder, or say --overwrite.")


def _write_demonstration(
    demonstration: Demonstration, root: Path, taken: set[str]
) -> dict[str, Any]:
    folder = file_name(demonstration.name, taken)
    (root / folder).mkdir()
    inside: set[str] = set()

    def write(cloud: PointCloud, step: str, role: str) -> str:
        file = f"{folder}/{starts[step]}_{role}.ply"
        write_cloud(cloud, root / file)
        return file

    starts = {step.name: file_name(step.name, inside) for step in demonstration.steps}
    return entry_of(demonstration, write)


def entry_of(
    demonstration: Demonstration, file_of: Callable[[PointCloud, str, str], str]
) -> dict[str, Any]:
    """What the manifest says of a demonstration.

    Args:
        demonstration: The demonstration.
        file_of: The file of a cloud, inside of the folder, from the cloud, the name of its step
            and its role there.
    """
    steps = []
    for step in demonstration.steps:
        entry: dict[str, Any] = {"name": step.name, "action": step.action.value}
        for role, cloud in (("scene", step.scene), ("grasp", step.grasp)):
            if cloud is not None:
                entry[role] = file_of(cloud, step.name, role)
        steps.append({**entry, "targets": step.targets.tolist()})
    return {"name": demonstration.name, "steps": steps}


def file_name(name: str, taken: set[str]) -> str:
    """A name that every file system takes, and that none of `taken` has; it is added to them."""
    safe = _OTHER_THAN_SAFE.sub("_", name)
    number = 1
    while (found := safe if number == 1 else f"{safe}_{number}").lower() in taken:
        number += 1
    taken.add(found.lower())
    return found


def readable_json(manifest: dict[str, Any]) -> str:
    """Indented JSON with each row of numbers on one line."""
    text = json.dumps(manifest, indent=2)
    # A line end stands in no text of JSON, so that only lists begin like this.
    return re.sub(r"\[\n\s*([-+.\deE,\s]+?)\s+\]", _on_one_line, text) + "\n"


def _on_one_line(row: re.Match[str]) -> str:
    return "[" + " ".join(row[1].split()) + "]"
