"""What was done in a scene before a step is taught in it, in a file beside its cloud."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from handful._files import atomic_write_text, remove_file
from handful._rigid import check_pose
from handful._strict_json import Fields, read_json
from handful.apps.studio._document import Scene
from handful.demos import MAX_STEPS, pose_from_json, readable_json
from handful.errors import DemoError

NOTES = ".json"
"""Ending of the file."""
_POSE, _FOLLOWS, _INDEX = "T_scene_gripper", "demonstration", "index"


def noted(scene: Scene, file: Path) -> Scene:
    """The scene with what its file says.

    Raises:
        HandfulError: The file is there and cannot be read.
    """
    if not file.is_file():
        return scene
    fields = Fields(read_json(file), str(file), DemoError)
    if fields.has(_POSE):
        address = f"{file}: {_POSE}"
        pose = pose_from_json(fields.any(_POSE), address)
        scene = replace(scene, pose=check_pose(pose, name=address))
    scene = replace(scene, follows=fields.text(_FOLLOWS, "", longest=100))
    if fields.has(_INDEX):
        scene = replace(scene, place=fields.integer(_INDEX, low=0, high=MAX_STEPS))
    fields.done()
    return scene


def write_notes(scene: Scene, file: Path) -> None:
    """Write what there is to say of a scene, in one step; no file where there is nothing.

    Raises:
        FileFormatError: It cannot be written.
    """
    said: dict[str, Any] = {}
    if scene.pose is not None:
        said[_POSE] = scene.pose.tolist()
    if scene.follows:
        said[_FOLLOWS] = scene.follows
    if scene.place is not None:
        said[_INDEX] = scene.place
    if said:
        atomic_write_text(file, readable_json(said))
    else:
        remove_file(file)
