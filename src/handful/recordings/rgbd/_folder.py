"""A folder of RGB-D recordings: images, and one JSON file that a person can write.

`docs/recordings.md` describes it with an example; `handful sample --rgbd` writes that example.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from handful._strict_json import Fields, read_json
from handful.clouds import cloud_from_rgbd, without_flying_pixels
from handful.demos import Action, DemoSet, Gripper, member_path
from handful.errors import DemoError, errors_at, unknown_name_message
from handful.recordings._agreement import PosedView
from handful.recordings._camera import Pose, RecordingCamera
from handful.recordings._images import read_color, read_depth
from handful.recordings._pose_mistakes import check_poses, pose_text
from handful.recordings._setup import RecordingSetup, check_version, read_setup
from handful.recordings._sights import VOXEL, SeenStep, Sight, demonstration_from_sights

MANIFEST = "recordings.json"
FORMAT = "handful-rgbd"
VERSION = 1
MAX_RECORDINGS, MAX_STEPS, MAX_TARGETS = 10_000, 64, 1000
MAX_VIEWS = 32
"""Of the scene, or of what is held, in one step."""
ARM = "`T_robot_gripper` of the views, and in the targets if they come from the same program"
LOOKED_AT = 2
"""Recordings whose images are compared with the poses; all have the same cameras and arm."""


def import_rgbd(
    folder: str | Path,
    *,
    voxel: float = VOXEL,
    report: Callable[[str], None] | None = None,
    warn: Callable[[str], None] | None = None,
) -> DemoSet:
    """Demonstrations from a folder of colour and depth images.

    Before clouds are made, the images of the first recordings are compared with the poses of
    cameras and arm: where they do not fit, the usual mistakes are tried.

    Args:
        folder: The folder, or its `recordings.json`.
        voxel: Clouds are thinned to this, metres; 0 keeps every point.
        report: Told the name of each recording before it is read.
        warn: Told in what images and poses do not fit, where no usual mistake explains it.

    Raises:
        HandfulError: Something is wrong; the message names the file, the field and the cure.
    """
    opened = _opened(Path(folder), voxel)
    manifest, setup, recordings = opened.manifest, opened.setup, opened.recordings
    read = {
        name: _read_steps(name, *recordings[name], setup, report)
        for name in list(recordings)[:LOOKED_AT]
    }
    check_poses([step for steps in read.values() for step in steps], setup, manifest, ARM, warn)
    demonstrations = []
    for name, (content, root) in recordings.items():
        steps = read.pop(name, None) or _read_steps(name, content, root, setup, report)
        with errors_at(content.address):
            demonstrations.append(
                demonstration_from_sights(name, steps, setup.gripper, setup.options)
            )
    with errors_at(manifest):
        return DemoSet(tuple(demonstrations), setup.gripper, opened.description)


@dataclass(frozen=True, eq=False)
class _Opened:
    """A manifest that was read.

    Attributes:
        manifest: The file.
        setup: What all recordings share.
        description: Of the set.
        recordings: By name: fields, and the folder that its images are relative to.
        hand: Views of the open hand, not read yet, with their addresses.
    """

    manifest: Path
    setup: RecordingSetup
    description: str
    recordings: dict[str, tuple[Fields, Path]]
    hand: list[tuple[str, Any]]


def _opened(path: Path, voxel: float) -> _Opened:
    """Read the manifest, and which recordings there are."""
    manifest = path if path.name == MANIFEST else path / MANIFEST
    if not manifest.is_file():
        raise DemoError(
            f"{path}: no {MANIFEST} there. See what one looks like: `handful sample --rgbd --out "
            "example`."
        )
    fields = Fields(read_json(manifest), str(manifest), DemoError)
    check_version(fields, FORMAT, VERSION)
    description = fields.text("description", "")
    setup = read_setup(fields, manifest, voxel)
    entries = fields.items("recordings", MAX_RECORDINGS)
    hand = list(fields.items("hand", MAX_VIEWS)) if fields.has("hand") else []
    fields.done()
    recordings: dict[str, tuple[Fields, Path]] = {}
    for address, value in entries:
        recording, where, root = _entry(value, address, manifest.parent)
        opened = Fields(recording, where, DemoError)
        name = opened.text("name")
        if name in recordings:  # before any image is read: each takes time and memory
            raise DemoError(f"{where}: the recording {name!r} is there twice: each has its name.")
        recordings[name] = opened, root
    return _Opened(manifest, setup, description, recordings, hand)


def _entry(value: Any, address: str, root: Path) -> tuple[Any, str, Path]:
    """A recording's object, its address, and the folder that its images are relative to."""
    if not isinstance(value, str):
        return value, address, root
    path = member_path(root, value, address)
    if not path.is_file():
        raise DemoError(f"{address}: there is no file {value!r} in {root}.")
    return read_json(path), str(path), path.parent


def _read_steps(
    name: str,
    fields: Fields,
    root: Path,
    setup: RecordingSetup,
    report: Callable[[str], None] | None,
) -> list[SeenStep]:
    if report is not None:
        report(name)
    entries = fields.items("steps", MAX_STEPS)
    steps = [_read_step(step, where, root, setup) for where, step in entries]
    fields.done()
    return steps


def _read_step(value: Any, address: str, root: Path, setup: RecordingSetup) -> SeenStep:
    fields = Fields(value, address, DemoError)
    name = fields.text("name")
    with errors_at(f"{address}: field 'action'"):
        action = Action.named(fields.text("action"))
    scene = _read_sights(fields, "scene", root, setup)
    held = _read_sights(fields, "held", root, setup) if fields.has("held") else ()
    targets = [
        setup.units.pose(pose, where) for where, pose in fields.items("targets", MAX_TARGETS)
    ]
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


def _read_sights(fields: Fields, name: str, root: Path, setup: RecordingSetup) -> tuple[Sight, ...]:
    entries = fields.items(name, MAX_VIEWS)
    return tuple(_read_sight(value, where, root, setup) for where, value in entries)


def _read_sight(value: Any, address: str, root: Path, setup: RecordingSetup) -> Sight:
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
    with errors_at(address):
        image = read_color(color, camera.color_size)
        metres = read_depth(depth, camera.depth_size, camera.depth_scale)
        view = camera.view(image, metres, gripper)
        if not setup.keep_flying_pixels:
            view = without_flying_pixels(view)
        with errors_at(depth.name):
            cloud = cloud_from_rgbd(view)
        return Sight(cloud, gripper, address, PosedView.of(camera, view, gripper))


@dataclass(frozen=True, eq=False)
class RecordedHand:
    """A picture in which a camera sees the hand, and where the arm says that it is.

    Attributes:
        sight: The picture, as a cloud in the robot's frame; it says where the gripper was.
        camera: As the file describes it.
        length_unit: Of the file.
    """

    sight: Sight
    camera: RecordingCamera
    length_unit: str

    @property
    def T_scene_gripper(self) -> Pose:
        """Where the arm says the gripper was."""
        assert self.sight.T_scene_gripper is not None  # checked when it was read
        return self.sight.T_scene_gripper

    def corrected(self, correction: Pose) -> str:
        """The camera's pose as it is to be written into the file.

        Args:
            correction: By which the cloud is to be moved in the robot's frame.
        """
        pose = correction @ self.camera.pose(self.T_scene_gripper)
        if self.camera.on_wrist:
            pose = np.linalg.inv(self.T_scene_gripper) @ pose
        return f'"{self.camera.field}": {pose_text(pose, self.length_unit)}'


def recorded_hands(folder: str | Path) -> tuple[Gripper, list[RecordedHand]]:
    """The gripper, and the pictures of its open, empty hand.

    Args:
        folder: Of RGB-D recordings.

    Raises:
        DemoError: There are none.
    """
    opened = _opened(Path(folder), 0.0)
    setup, found = opened.setup, []
    for where, value in opened.hand:
        sight = _read_sight(value, where, opened.manifest.parent, setup)
        if sight.view is None or sight.T_scene_gripper is None:
            raise DemoError(f"{where}: has no 'T_robot_gripper': where the arm says the hand is.")
        found.append(RecordedHand(sight, setup.cameras[sight.view.camera], setup.units.length))
    if not found:
        raise DemoError(
            f"{opened.manifest}: has no field 'hand' with views of the open, empty hand, by which "
            "a camera is measured: take one or more and write them there, see docs/checks.md."
        )
    return setup.gripper, found
