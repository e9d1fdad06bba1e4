"""A folder of RGB-D recordings: images, and one JSON file that a person can write.

`docs/recordings.md` describes it with an example; `handful sample --rgbd` writes that example.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from handful._strict_json import Fields, read_json
from handful.clouds import cloud_from_rgbd
from handful.demos import (
    Action,
    Demonstration,
    DemoSet,
    Gripper,
    gripper_from_json,
    load_gripper,
    member_path,
)
from handful.errors import DemoError, errors_at, unknown_name_message
from handful.recordings._sights import (
    VOXEL,
    CloudOptions,
    SeenStep,
    Sight,
    demonstration_from_sights,
)
from handful.recordings.rgbd._camera import Pose, RecordingCamera, read_camera
from handful.recordings.rgbd._units import LENGTHS, Units

MANIFEST = "recordings.json"
FORMAT = "handful-rgbd"
VERSION = 1


@dataclass(frozen=True, eq=False)
class _Setup:
    """What all recordings of a folder share."""

    units: Units
    cameras: dict[str, RecordingCamera]
    gripper: Gripper
    options: CloudOptions
    keep_flying_pixels: bool


def import_rgbd(
    folder: str | Path,
    *,
    voxel: float = VOXEL,
    report: Callable[[str], None] | None = None,
) -> DemoSet:
    """Demonstrations from a folder of colour and depth images.

    Args:
        folder: The folder, or its `recordings.json`.
        voxel: Clouds are thinned to this, metres; 0 keeps every point.
        report: Told the name of each recording before it is read.

    Raises:
        HandfulError: Something is wrong; the message names the file, the field and the cure.
    """
    path = Path(folder)
    manifest = path if path.name == MANIFEST else path / MANIFEST
    if not manifest.is_file():
        raise DemoError(
            f"{path}: no {MANIFEST} there. See what one looks like: `handful sample --rgbd --out "
            "example`."
        )
    fields = Fields(read_json(manifest), str(manifest), DemoError)
    _check_version(fields)
    description = fields.text("description", "")
    setup = _read_setup(fields, manifest, voxel)
    entries = fields.items("recordings")
    fields.done()
    demonstrations = []
    for address, value in entries:
        recording, where, root = _entry(value, address, manifest.parent)
        demonstrations.append(_read_recording(recording, where, root, setup, report))
    with errors_at(manifest):
        return DemoSet(tuple(demonstrations), setup.gripper, description)


def _check_version(fields: Fields) -> None:
    name, version = fields.text("format"), fields.integer("version")
    if name != FORMAT or version != VERSION:
        raise DemoError(
            f"{fields.address}: has the format {name!r}, version {version}: need {FORMAT!r}, "
            f"version {VERSION}."
        )


def _read_setup(fields: Fields, manifest: Path, voxel: float) -> _Setup:
    if not fields.has("length_unit"):
        raise DemoError(
            f"{manifest}: field 'length_unit' is missing: write {' or '.join(map(repr, LENGTHS))}, "
            "the unit of every position in this file but the gripper's."
        )
    with errors_at(f"{manifest}: length_unit"):
        units = Units(fields.text("length_unit"))
    options = CloudOptions(voxel=voxel)
    if fields.has("workspace"):
        workspace = units.box(fields.any("workspace"), f"{manifest}: workspace")
        options = replace(options, workspace=workspace)
    if fields.has("held_reach"):
        with errors_at(f"{manifest}: field 'held_reach'"):
            reach = fields.number("held_reach") * LENGTHS[units.length]
            options = replace(options, held_reach=reach)
    keep = fields.flag("keep_flying_pixels", False)
    gripper = _read_gripper(fields, manifest)
    where = f"{manifest}: cameras"
    listed = fields.any("cameras")
    if not isinstance(listed, dict) or not listed:
        raise DemoError(f"{where}: need an object with one camera or more by name.")
    cameras = {
        name: read_camera(value, f"{where}: {name}", name, units) for name, value in listed.items()
    }
    return _Setup(units, cameras, gripper, options, keep)


def _read_gripper(fields: Fields, manifest: Path) -> Gripper:
    """A gripper by name, as an object, or in a file of its own beside the manifest."""
    value, address = fields.any("gripper"), f"{manifest}: gripper"
    if isinstance(value, str) and value.lower().endswith(".json"):
        with errors_at(address):
            return load_gripper(member_path(manifest.parent, value, address))
    return gripper_from_json(value, address, manifest.parent)


def _entry(value: Any, address: str, root: Path) -> tuple[Any, str, Path]:
    """A recording's object, its address, and the folder that its images are relative to."""
    if not isinstance(value, str):
        return value, address, root
    path = member_path(root, value, address)
    if not path.is_file():
        raise DemoError(f"{address}: there is no file {value!r} in {root}.")
    return read_json(path), str(path), path.parent


def _read_recording(
    value: Any, address: str, root: Path, setup: _Setup, report: Callable[[str], None] | None
) -> Demonstration:
    fields = Fields(value, address, DemoError)
    name = fields.text("name")
    if report is not None:
        report(name)
    steps = [_read_step(step, where, root, setup) for where, step in fields.items("steps")]
    fields.done()
    with errors_at(address):
        return demonstration_from_sights(name, steps, setup.gripper, setup.options)


def _read_step(value: Any, address: str, root: Path, setup: _Setup) -> SeenStep:
    fields = Fields(value, address, DemoError)
    name = fields.text("name")
    with errors_at(f"{address}: field 'action'"):
        action = Action.named(fields.text("action"))
    scene = _read_sights(fields, "scene", root, setup)
    held = _read_sights(fields, "held", root, setup) if fields.has("held") else ()
    targets = [setup.units.pose(pose, where) for where, pose in fields.items("targets")]
    fields.done()
    if not scene or not targets:
        missing = "targets" if scene else "scene"
        raise DemoError(f"{address}: field {missing!r} is an empty list: need one or more.")
    if held and not action.holding:
        raise DemoError(
            f"{address}: has views of what is held, and the gripper is empty before the action "
            f"{action.value!r}: put them under the step that lets it go."
        )
    for sight in held:
        if sight.T_scene_gripper is None:
            raise DemoError(
                f"{sight.where}: has no 'T_robot_gripper': what is held is cut out around the "
                "gripper, so give the arm's pose when the view was taken."
            )
    return SeenStep(name, action, scene, held, np.stack(targets))


def _read_sights(fields: Fields, name: str, root: Path, setup: _Setup) -> tuple[Sight, ...]:
    return tuple(_read_sight(value, where, root, setup) for where, value in fields.items(name))


def _read_sight(value: Any, address: str, root: Path, setup: _Setup) -> Sight:
    fields = Fields(value, address, DemoError)
    name = fields.text("camera")
    if name not in setup.cameras:
        raise DemoError(f"{address}: {unknown_name_message('camera', name, setup.cameras)}")
    color, depth = (
        member_path(root, fields.text(kind), f"{address}: field {kind!r}")
        for kind in ("color", "depth")
    )
    gripper: Pose | None = None
    if fields.has("T_robot_gripper"):
        gripper = setup.units.pose(fields.any("T_robot_gripper"), f"{address}: T_robot_gripper")
    fields.done()
    camera = setup.cameras[name]
    view = camera.view(color, depth, gripper, setup.keep_flying_pixels, address)
    with errors_at(f"{address}: {depth.name}"):
        return Sight(cloud_from_rgbd(view), gripper, address)
