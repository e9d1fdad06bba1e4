"""The example folder of RGB-D recordings, as a person with two cameras would have written it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped
from PIL import Image
from scipy.spatial.transform import Rotation

from handful._files import atomic_write_bytes, atomic_write_text, staged_folder
from handful.clouds import Intrinsics
from handful.demos import Action, check_replaceable, gripper_to_json, readable_json
from handful.errors import OptionError
from handful.recordings.example._cameras import (
    CAMERAS,
    ExampleCamera,
    hand_poses,
    looking_poses,
    showing_poses,
)
from handful.recordings.example._peg import (
    GRIPPER,
    HEAD_RADIUS,
    PegLayout,
    Pose,
    box_with_hole_mesh,
    hand_mesh,
    peg_mesh,
    random_layout,
    table_mesh,
)
from handful.recordings.rgbd import FORMAT, MANIFEST, VERSION
from handful.render import ColoredMesh

DESCRIPTION = "Put a peg into the hole of a box (made by handful, seen by virtual cameras)."
STEPS = ("take peg", "insert peg")
WORKSPACE = {"lower": [200, -250, -15], "upper": [700, 250, 300]}
"""Millimetres."""

MILLIMETRES = 1000.0
MOST = 1000
"""Recordings; their numbers are part of their seeds."""
HAND_FOLDER = "hand"


def write_rgbd_example(
    folder: str | Path, count: int = 10, seed: int = 0, *, overwrite: bool = False
) -> Path:
    """Write RGB-D recordings of a peg that goes into a box, for `import_rgbd`.

    The first recordings of a larger folder are those of a smaller one.

    Args:
        folder: Where; must not exist, be empty, or (with `overwrite`) hold RGB-D recordings.
        count: Number of recordings, 1 to 1000.
        seed: The same seed gives the same images.
        overwrite: Replace recordings that are there.

    Returns:
        The folder.
    """
    if not 1 <= count <= MOST or seed < 0:
        raise OptionError(f"count {count}, seed {seed}: need 1 to {MOST} and 0 or more.")
    target = Path(folder)
    check_replaceable(target, MANIFEST, "folder of RGB-D recordings", overwrite)
    with staged_folder(target) as staging:
        names = [f"peg_{index:02d}" for index in range(count)]
        for index, name in enumerate(names):
            recording = _Recording(staging / name, np.random.default_rng([seed, index]))
            atomic_write_text(recording.folder / "recording.json", readable_json(recording.write()))
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "description": DESCRIPTION,
            "length_unit": "mm",
            "gripper": "hand.json",
            "workspace": WORKSPACE,
            "cameras": {name: _camera_json(camera) for name, camera in CAMERAS.items()},
            "hand": _hand_views(staging, np.random.default_rng([seed, MOST])),
            "recordings": [f"{name}/recording.json" for name in names],
        }
        atomic_write_text(staging / "hand.json", readable_json(gripper_to_json(GRIPPER, staging)))
        atomic_write_text(staging / MANIFEST, readable_json(manifest))
    return target


class _Recording:
    """One recording: what is there, and the images that are taken of it.

    Args:
        folder: Where its images go.
        rng: For the layout, the arm's poses and the noise.
    """

    def __init__(self, folder: Path, rng: np.random.Generator) -> None:
        folder.mkdir()
        self.folder = folder
        self._rng = rng
        self._layout = random_layout(rng)
        self._held = peg_mesh().transformed(np.linalg.inv(self._layout.T_peg_gripper))

    def write(self) -> dict[str, Any]:
        """Take all images and say what they are."""
        layout, rng = self._layout, self._rng
        box = box_with_hole_mesh().transformed(layout.T_robot_box)
        peg = peg_mesh().transformed(layout.T_robot_peg)
        before, after = [table_mesh(), peg, box], [table_mesh(), box]
        take = [self._view("take", "table", before)]
        take += [self._view("take", "wrist", before, hand) for hand in looking_poses(rng)]
        insert = [self._view("insert", "table", after)]
        insert += [self._view("insert", "wrist", after, hand, True) for hand in looking_poses(rng)]
        held = [self._view("held", "table", after, hand, True) for hand in showing_poses(rng)]
        return {"name": self.folder.name, "steps": _steps_json(layout, take, insert, held)}

    def _view(
        self,
        what: str,
        name: str,
        meshes: Sequence[ColoredMesh],
        T_robot_gripper: Pose | None = None,
        holding: bool = False,
    ) -> dict[str, Any]:
        """Take one pair of images and say what they are."""
        shown = list(meshes)
        if T_robot_gripper is not None:
            hand = [hand_mesh(2.0 * HEAD_RADIUS if holding else GRIPPER.opening)]
            hand += [self._held] if holding else []
            shown += [part.transformed(T_robot_gripper) for part in hand]
        number = len(list(self.folder.glob(f"{what}_{name}*_depth.png"))) + 1
        start = f"{what}_{name}_{number}"
        return _taken(self.folder, start, name, shown, T_robot_gripper, self._rng)


def _taken(
    root: Path,
    start: str,
    camera: str,
    meshes: Sequence[ColoredMesh],
    T_robot_gripper: Pose | None,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Take one pair of images, in files whose names have that start, and say what they are."""
    color, depth = CAMERAS[camera].taken(meshes, T_robot_gripper, rng)
    view: dict[str, Any] = {"camera": camera}
    for kind, pixels in (("color", color), ("depth", depth)):
        view[kind] = f"{start}_{kind}.png"
        atomic_write_bytes(root / view[kind], _png(pixels))
    if T_robot_gripper is not None:
        view["T_robot_gripper"] = pose_json(T_robot_gripper)
    return view


def _hand_views(root: Path, rng: np.random.Generator) -> list[dict[str, Any]]:
    """The open, empty hand, free in the air before the camera beside the table."""
    (root / HAND_FOLDER).mkdir()
    views = []
    for number, T in enumerate(hand_poses(rng), 1):
        meshes = [table_mesh(), hand_mesh(GRIPPER.opening).transformed(T)]
        views.append(_taken(root, f"{HAND_FOLDER}/table_{number}", "table", meshes, T, rng))
    return views


def _steps_json(
    layout: PegLayout,
    take: list[dict[str, Any]],
    insert: list[dict[str, Any]],
    held: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    return [
        {
            "name": STEPS[0],
            "action": Action.PICK.value,
            "scene": take,
            "targets": [pose_json(layout.T_robot_grasp)],
        },
        {
            "name": STEPS[1],
            "action": Action.PLACE.value,
            "scene": insert,
            "held": held,
            "targets": [pose_json(layout.T_robot_release)],
        },
    ]


def _camera_json(camera: ExampleCamera) -> dict[str, Any]:
    value: dict[str, Any] = {"intrinsics": _intrinsics_json(camera.color)}
    if camera.depth is not None:
        value["depth_intrinsics"] = _intrinsics_json(camera.depth)
        value["T_color_depth"] = pose_json(camera.T_color_depth)
    place = "T_gripper_camera" if camera.on_wrist else "T_robot_camera"
    return {**value, "depth_scale": camera.depth_scale, place: pose_json(camera.T_base_camera)}


def _intrinsics_json(intrinsics: Intrinsics) -> dict[str, Any]:
    value = asdict(intrinsics)
    distortion = value.pop("distortion")
    return {**value, "distortion": list(distortion)} if distortion else value


def pose_json(pose: Pose) -> dict[str, Any]:
    """A pose as a robot's screen shows it: hundredths of a millimetre, rounded quaternions."""
    quat = Rotation.from_matrix(pose[:3, :3]).as_quat()
    return {
        "position": np.round(pose[:3, 3] * MILLIMETRES, 2).tolist(),
        "quat_xyzw": np.round(quat, 5).tolist(),
    }


def _png(pixels: Shaped[np.ndarray, "..."]) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format="PNG", compress_level=4)
    return out.getvalue()
