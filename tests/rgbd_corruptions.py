"""RGB-D recordings with the usual mistakes in them, each made in the files as a person makes it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.spatial.transform import Rotation

from handful.checks import check_demos
from handful.errors import HandfulError
from handful.recordings import import_rgbd, write_rgbd_example
from handful.recordings.rgbd import MANIFEST


@dataclass(frozen=True)
class Corruption:
    """One mistake.

    Attributes:
        name: In the table of docs/road.md.
        spoil: Makes the mistake in a folder of recordings.
        told_by: The command that says it: `import` or `check`.
        told: What its message holds.
    """

    name: str
    spoil: Callable[[Path], None]
    told_by: str
    told: str


def _edit(path: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def _each_step(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    for path in sorted(folder.glob("*/recording.json")):
        _edit(path, lambda recording: [change(step) for step in recording["steps"]])


def _poses(value: Any) -> Iterator[dict[str, Any]]:
    """All poses inside of a JSON value."""
    if isinstance(value, dict) and "position" in value and "quat_xyzw" in value:
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _poses(one)


def _matrix(pose: dict[str, Any]) -> np.ndarray:
    found = np.eye(4)
    found[:3, :3] = Rotation.from_quat(pose["quat_xyzw"]).as_matrix()
    found[:3, 3] = pose["position"]
    return found


def _put(pose: dict[str, Any], matrix: np.ndarray) -> None:
    pose["position"] = matrix[:3, 3].tolist()
    pose["quat_xyzw"] = Rotation.from_matrix(matrix[:3, :3]).as_quat().tolist()


def _targets(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        _each_step(
            folder,
            lambda step: [_put(pose, change(_matrix(pose))) for pose in step["targets"]],
        )

    return spoil


def _swap_quaternions(folder: Path) -> None:
    """Targets from a program that writes w, x, y, z."""

    def swap(step: dict[str, Any]) -> None:
        for pose in step["targets"]:
            x, y, z, w = pose["quat_xyzw"]
            pose["quat_xyzw"] = [w, x, y, z]

    _each_step(folder, swap)


def _camera_frame(folder: Path) -> None:
    """Targets as the camera beside the table sees them."""
    camera = json.loads((folder / MANIFEST).read_text())["cameras"]["table"]["T_robot_camera"]
    T_camera_robot = np.linalg.inv(_matrix(camera))
    _targets(lambda target: T_camera_robot @ target)(folder)


def _camera(change: Callable[[dict[str, Any]], None], name: str = "table") -> Callable[..., None]:
    return lambda folder: _edit(
        folder / MANIFEST, lambda manifest: change(manifest["cameras"][name])
    )


def _set(*keys: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = to

    return change


def _invert(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda camera: _put(camera[name], np.linalg.inv(_matrix(camera[name])))


def _in_metres(camera: dict[str, Any]) -> None:
    pose = camera["T_gripper_camera"]
    pose["position"] = [value / 1000.0 for value in pose["position"]]


def _of_the_link(camera: dict[str, Any]) -> None:
    """The pose that a robot's description has: x forward, y left, z up."""
    optical_in_link = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    T = _matrix(camera["T_robot_camera"])
    T[:3, :3] = T[:3, :3] @ optical_in_link.T
    _put(camera["T_robot_camera"], T)


def _swap_all_quaternions(folder: Path) -> None:
    """One program that writes w, x, y, z wrote all poses."""

    def swap(content: Any) -> None:
        for pose in _poses(content):
            x, y, z, w = pose["quat_xyzw"]
            pose["quat_xyzw"] = [w, x, y, z]

    for path in (folder / MANIFEST, *sorted(folder.glob("*/recording.json"))):
        _edit(path, swap)


def _swap_quaternions_of_arm(folder: Path) -> None:
    """The arm's program writes w, x, y, z; the cameras were calibrated by another one."""

    def swap(step: dict[str, Any]) -> None:
        for pose in _poses(step):
            x, y, z, w = pose["quat_xyzw"]
            pose["quat_xyzw"] = [w, x, y, z]

    _each_step(folder, swap)


def _invert_arm(folder: Path) -> None:
    """The arm's program gives the robot's base in the frame of the gripper."""

    def invert(step: dict[str, Any]) -> None:
        for pose in _poses(step):
            _put(pose, np.linalg.inv(_matrix(pose)))

    _each_step(folder, invert)


def _metres(folder: Path) -> None:
    """The unit says metres, and the numbers are millimetres."""
    _edit(folder / MANIFEST, _set("length_unit", to="m"))


def _long_tip(folder: Path) -> None:
    _edit(folder / "hand.json", _set("contact", "position", to=[0.0, 0.0, 0.225]))


def _approach_along_x(folder: Path) -> None:
    """Poses of a robot whose tool points along x."""
    turn = np.eye(4)
    turn[:3, :3] = Rotation.from_euler("y", 90, degrees=True).as_matrix()
    _targets(lambda target: target @ turn)(folder)


def _depth_for_people(folder: Path) -> None:
    """Depth saved as the picture that a viewer shows."""
    for path in folder.glob("*/*_depth.png"):
        with Image.open(path) as image:
            grey = (np.array(image) % 256).astype(np.uint8)
        Image.fromarray(grey).save(path)


def _no_arm_poses(folder: Path) -> None:
    def drop(step: dict[str, Any]) -> None:
        for view in step.get("held", ()):
            view.pop("T_robot_gripper", None)

    _each_step(folder, drop)


def _neighbours_poses(folder: Path) -> None:
    """Poses written down one recording late."""
    paths = sorted(folder.glob("*/recording.json"))
    all_steps = [json.loads(path.read_text())["steps"] for path in paths]
    for path, others in zip(paths, [*all_steps[1:], all_steps[0]], strict=True):
        _edit(
            path,
            lambda recording, others=others: [
                step.update(targets=other["targets"])
                for step, other in zip(recording["steps"], others, strict=True)
            ],
        )


def _degrees(folder: Path) -> None:
    """Rotation vectors in degrees under the name of radians."""

    def write(step: dict[str, Any]) -> None:
        for pose in step["targets"]:
            turn = Rotation.from_quat(pose.pop("quat_xyzw"))
            pose["rotvec_rad"] = np.rad2deg(turn.as_rotvec()).tolist()

    _each_step(folder, write)


CORRUPTIONS = [
    Corruption("quaternions w, x, y, z under `quat_xyzw`", _swap_quaternions, "check",
               "the quaternions are in the order w, x, y, z, and were read as x, y, z, w"),
    Corruption("targets inverted", _targets(np.linalg.inv), "check",
               "the poses are T_gripper_scene, the inverse of what is needed"),
    Corruption("targets in the frame of the camera", _camera_frame, "check",
               "poses and clouds are probably in different frames, for example the poses in that "
               "of the camera"),
    Corruption("tool that approaches along -x", _approach_along_x, "check",
               "the hand approaches along the -x axis of its poses, not z"),
    Corruption("contact point 9 cm too far from the flange", _long_tip, "check",
               "the contact point is 8.0 cm in front of the described fingers"),
    Corruption("targets written down one recording late", _neighbours_poses, "check",
               "the poses belong to the previous demonstration's clouds"),
    Corruption("`length_unit` m, numbers in millimetres", _metres, "import",
               'Write "length_unit": "mm" if the file is in millimetres'),
    Corruption("rotation vectors in degrees under `rotvec_rad`", _degrees, "import",
               "Give radians, not degrees"),
    Corruption("`depth_scale` ten times too large", _camera(_set("depth_scale", to=0.01)),
               "import", "check the depth unit"),
    Corruption("`T_robot_camera` inverted", _camera(_invert("T_robot_camera")), "import",
               "T_robot_camera of the camera 'table' is the inverse of what the name says"),
    Corruption("hand-eye pose `T_gripper_camera` inverted",
               _camera(_invert("T_gripper_camera"), "wrist"), "import",
               "T_gripper_camera of the camera 'wrist' is the inverse of what the name says"),
    Corruption("hand-eye pose in metres in a file of millimetres",
               _camera(_in_metres, "wrist"), "import",
               "its position is in metres, and `length_unit` says mm"),
    Corruption("pose of a camera's link instead of its optical frame",
               _camera(_of_the_link), "import",
               "the pose of the camera's link (x forward, z up), not of its optical frame"),
    Corruption("every quaternion w, x, y, z under `quat_xyzw`", _swap_all_quaternions, "import",
               "turns depth by 180 degrees against colour, and the two cameras of one device look "
               "the same way (at most 20 degrees): its quaternion is in the order w, x, y, z"),
    Corruption("the arm's quaternions w, x, y, z under `quat_xyzw`, views and targets alike",
               _swap_quaternions_of_arm, "import",
               "the arm's poses are written with quaternions in the order w, x, y, z"),
    Corruption("the arm's poses inverted, views and targets alike", _invert_arm, "import",
               "the arm's poses are the inverse of what the name says"),
    Corruption("intrinsics of another resolution", _camera(_set("intrinsics", "width", to=848)),
               "import", "its camera's intrinsics are for 848 x 240: save images as they were "
               "calibrated"),
    Corruption("depth saved as a picture for people", _depth_for_people, "import",
               "a picture of depth for people: need one channel of 16 bits"),
    Corruption("views of what is held without the arm's pose", _no_arm_poses, "import",
               "has no 'T_robot_gripper': what is held is cut out around the gripper"),
]  # fmt: skip


def what_is_told(folder: Path) -> tuple[str, str]:
    """Which command says something, and what; nothing for recordings without a mistake."""
    try:
        demos = import_rgbd(folder)
    except HandfulError as error:
        return "import", str(error)
    report = check_demos(demos)
    if not report.wrong:
        return "", ""
    return "check", report.advice or str(report.problems[0])


def main() -> None:
    """Make every mistake in three recordings, and print what is told of each, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        right = write_rgbd_example(Path(folder) / "right", 3)
        told = {"": what_is_told(right)}
        for corruption in CORRUPTIONS:
            spoiled = Path(folder) / "spoiled"
            shutil.copytree(right, spoiled)
            corruption.spoil(spoiled)
            told[corruption.name] = what_is_told(spoiled)
            shutil.rmtree(spoiled)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
