"""What all recordings of one folder share, as people describe it in JSON."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from handful._strict_json import Fields
from handful.demos import Gripper, gripper_from_json, load_gripper, member_path
from handful.errors import DemoError, errors_at
from handful.recordings._camera import RecordingCamera, read_camera
from handful.recordings._sights import CloudOptions
from handful.recordings._units import LENGTHS, Units


@dataclass(frozen=True, eq=False)
class RecordingSetup:
    """Gripper, cameras, units, and how clouds are made.

    Attributes:
        units: Of lengths in the file.
        cameras: By name.
        sources: For each camera, what else the file says of it, by the names of fields.
        gripper: What was used.
        options: How clouds are made.
        keep_flying_pixels: Leave them in.
    """

    units: Units
    cameras: dict[str, RecordingCamera]
    sources: dict[str, dict[str, str]]
    gripper: Gripper
    options: CloudOptions
    keep_flying_pixels: bool


def check_version(fields: Fields, form: str, version: int) -> None:
    """Take `format` and `version` of a file, and refuse others than these."""
    name, found = fields.text("format"), fields.integer("version")
    if name != form or found != version:
        raise DemoError(
            f"{fields.address}: has the format {name!r}, version {found}: need {form!r}, "
            f"version {version}."
        )


def read_setup(
    fields: Fields, manifest: Path, voxel: float, of_cameras: tuple[str, ...] = ()
) -> RecordingSetup:
    """Take the fields that recordings share.

    Args:
        fields: Of the file's object.
        manifest: The file.
        voxel: Clouds are thinned to this, metres.
        of_cameras: Names of further text fields that each camera has.
    """
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
    cameras, sources = {}, {}
    for name, value in listed.items():
        camera = Fields(value, f"{where}: {name}", DemoError)
        cameras[name] = read_camera(camera, name, units)
        sources[name] = {key: camera.text(key) for key in of_cameras}
        camera.done()
    return RecordingSetup(units, cameras, sources, gripper, options, keep)


def _read_gripper(fields: Fields, manifest: Path) -> Gripper:
    """A gripper by name, as an object, or in a file of its own beside the manifest."""
    value, address = fields.any("gripper"), f"{manifest}: gripper"
    if isinstance(value, str) and value.lower().endswith(".json"):
        with errors_at(address):
            return load_gripper(member_path(manifest.parent, value, address))
    return gripper_from_json(value, address, manifest.parent)
