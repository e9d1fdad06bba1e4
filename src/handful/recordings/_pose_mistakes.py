"""The usual mistakes in poses of cameras and arm: each is undone, and the images decide."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from handful.clouds import Box
from handful.demos import Gripper
from handful.errors import DemoError
from handful.recordings._agreement import Arm, Fit, PosedView, Views
from handful.recordings._camera import Pose, RecordingCamera
from handful.recordings._setup import RecordingSetup
from handful.recordings._sights import SeenStep
from handful.recordings._units import LENGTHS

MENDED, BETTER = 1.15, 0.3
"""A mistake is named if undoing it brings the worst share to this many times of what is poor, and
up by the second."""
SIMPLER = 0.06
"""How much better the worst share must be under a mistake that concerns more poses."""
MOST_VIEWS = 12
"""Of one scene, and of what is held."""
FARTHEST = 3.0
"""Metres: no camera is taken to be farther away because its position is in another unit."""


@dataclass(frozen=True)
class PoseProblem:
    """What is wrong with recorded poses.

    Attributes:
        told: Sentences: what was seen, the mistake if one explains it, and its cure.
        named: Whether a usual mistake explains it.
    """

    told: str
    named: bool


@dataclass(frozen=True)
class _Change:
    """One usual mistake: what the recorded pose is, what to do about many, and how it is undone."""

    told: str
    cure: str
    undo: Callable[[Pose], Pose]


@dataclass(frozen=True)
class _Trial:
    """A mistake undone in some poses."""

    change: _Change
    cameras: tuple[str, ...]
    arm: bool

    @property
    def size(self) -> int:
        return len(self.cameras) + self.arm


def _reordered(order: tuple[int, ...]) -> Callable[[Pose], Pose]:
    def undo(T: Pose) -> Pose:
        quat = Rotation.from_matrix(T[:3, :3]).as_quat()[list(order)]
        return _with_rotation(T, Rotation.from_quat(quat).as_matrix())

    return undo


def _with_rotation(T: Pose, rotation: np.ndarray) -> Pose:
    found = T.copy()
    found[:3, :3] = rotation
    return found


def _in_metres(T: Pose) -> Pose:
    found = T.copy()
    found[:3, 3] *= 1000.0
    return found


_FROM_LINK = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
"""Columns: the optical axes in a camera's link frame, which is x forward, y left, z up."""

OF_ALL = (
    _Change("the inverse of what the name says", "invert them", lambda T: np.linalg.inv(T)),
    _Change(
        "written with quaternions in the order w, x, y, z, and were read as x, y, z, w",
        "name the quaternions `quat_wxyz`",
        _reordered((1, 2, 3, 0)),
    ),
    _Change(
        "written with quaternions in the order x, y, z, w, and were read as w, x, y, z",
        "name the quaternions `quat_xyzw`",
        _reordered((3, 0, 1, 2)),
    ),
    _Change(
        "turned by the inverse (transposed) rotation",
        "transpose the rotations, or change the sign of the quaternions' x, y and z",
        lambda T: _with_rotation(T, T[:3, :3].T),
    ),
)
"""Of cameras and of the arm."""

OF_CAMERAS = (
    _Change(
        "the pose of the camera's link (x forward, z up), not of its optical frame",
        "give the pose of the optical frame: x right, y down, z forward",
        lambda T: _with_rotation(T, T[:3, :3] @ _FROM_LINK),
    ),
    _Change(
        "the pose of a frame that looks along -z (as in OpenGL and Blender), not of OpenCV's",
        "give the pose of the optical frame: x right, y down, z forward",
        lambda T: _with_rotation(T, T[:3, :3] @ np.diag([1.0, -1.0, -1.0])),
    ),
)

IN_METRES = _Change(
    "a thousand times too small: its position is in metres, and `length_unit` says mm",
    "write its position in millimetres",
    _in_metres,
)


def check_poses(
    steps: Sequence[SeenStep],
    setup: RecordingSetup,
    file: Path,
    arm: str,
    warn: Callable[[str], None] | None,
) -> None:
    """Compare some recorded images with the poses that a file, or a data set, has.

    Args:
        steps: As they were recorded; sights without a view are left out.
        setup: Of the recordings.
        file: That describes the cameras, for the message.
        arm: Where the arm's poses are, for the message.
        warn: Told in what images and poses do not fit, where no usual mistake explains it.

    Raises:
        DemoError: A usual mistake explains why they do not fit.
    """
    scenes = [_some([one.view for one in step.scene if one.view is not None]) for step in steps]
    held = _some([sight.view for step in steps for sight in step.held if sight.view is not None])
    problem = pose_problem(
        scenes, held, setup.cameras, setup.gripper, setup.options.workspace, setup.units.length, arm
    )
    if problem is not None and problem.named:
        raise DemoError(f"{file}: {problem.told}")
    if problem is not None and warn is not None:
        warn(f"{file}: {problem.told}")


def _some(views: list[PosedView]) -> list[PosedView]:
    """Some of many views, from the first to the last: their pairs are compared."""
    if len(views) <= MOST_VIEWS:
        return views
    return [views[index] for index in np.linspace(0, len(views) - 1, MOST_VIEWS).astype(int)]


def pose_problem(
    scenes: Sequence[Sequence[PosedView]],
    held: Sequence[PosedView],
    cameras: Mapping[str, RecordingCamera],
    gripper: Gripper,
    workspace: Box | None,
    length_unit: str,
    arm: str,
) -> PoseProblem | None:
    """What is wrong with the recorded poses of cameras and arm; None if nothing is seen to be.

    Args:
        scenes: Views of the same things, together.
        held: Views of the hand with what it holds.
        cameras: As the file describes them.
        gripper: Whose hand is in view.
        workspace: What is looked at, or None.
        length_unit: Of the file, for the cure.
        arm: Where the file has the arm's poses, for the cure.
    """
    seen = Views(scenes, held, gripper, workspace)
    stated = seen.fit(cameras)
    poor = stated.worst
    if poor is None or poor >= 1.0:
        return None
    best, most = None, 0.0
    for trial in _trials(cameras, length_unit):
        fit = seen.fit(_undone(trial, cameras), _arm(trial))
        worst = fit.worst
        if worst is None or fit.measures_less(stated) or worst < max(MENDED, poor + BETTER):
            continue
        if worst > most + SIMPLER:
            best, most = (trial, fit), worst
    if best is None:
        return PoseProblem(
            f"{_told(stated)}, and no usual mistake explains it: check the poses of the cameras "
            "(`handful check camera`) and that images and poses are of the same moment.",
            named=False,
        )
    trial, fit = best
    return PoseProblem(
        f"{_told(stated)}. Probably {_what(trial, cameras)} {trial.change.told}; with that undone "
        f"they fit ({_shares(fit)}). Cure: {_cure(trial, cameras, length_unit, arm)}.",
        named=True,
    )


def _trials(cameras: Mapping[str, RecordingCamera], length_unit: str) -> Iterator[_Trial]:
    """Mistakes in one pose before those in several."""
    names = tuple(cameras)
    of_cameras = (*OF_ALL, *OF_CAMERAS, *((IN_METRES,) if length_unit == "mm" else ()))
    found = [_Trial(change, (name,), False) for change in of_cameras for name in names]
    found += [_Trial(change, (), True) for change in OF_ALL]
    if len(names) > 1:
        found += [_Trial(change, names, False) for change in of_cameras]
    found += [_Trial(change, names, True) for change in OF_ALL]
    yield from sorted(found, key=lambda trial: trial.size)


def _undone(trial: _Trial, cameras: Mapping[str, RecordingCamera]) -> dict[str, RecordingCamera]:
    return {
        name: replace(camera, T_base_camera=_kept_near(trial.change.undo(camera.T_base_camera)))
        if name in trial.cameras
        else camera
        for name, camera in cameras.items()
    }


def _kept_near(T: Pose) -> Pose:
    """The pose, or one that sees nothing where it is farther than any camera."""
    if float(np.linalg.norm(T[:3, 3])) <= FARTHEST:
        return T
    away = np.eye(4)
    away[2, 3] = 1000.0
    return away


def _arm(trial: _Trial) -> Arm:
    return trial.change.undo if trial.arm else lambda pose: pose


def _told(fit: Fit) -> str:
    return f"the images do not fit the recorded poses: {_shares(fit)}"


def _shares(fit: Fit) -> str:
    parts = []
    if fit.scenes is not None:
        parts.append(f"of what one view shows others show {100 * fit.scenes:.0f}% there, too")
    if fit.hand is not None:
        parts.append(f"{100 * fit.hand:.0f}% of the hand is seen where the arm says")
    return ", ".join(parts)


def _what(trial: _Trial, cameras: Mapping[str, RecordingCamera]) -> str:
    if len(trial.cameras) == 1 and not trial.arm:
        name = trial.cameras[0]
        return f"{cameras[name].field} of the camera {name!r} is"
    if trial.arm:
        return (
            "the arm's poses, and those of the cameras, are"
            if trial.cameras
            else ("the arm's poses are")
        )
    return "the poses of all cameras are"


def _cure(trial: _Trial, cameras: Mapping[str, RecordingCamera], length_unit: str, arm: str) -> str:
    if trial.arm:
        return f"{trial.change.cure} in {'the cameras and ' if trial.cameras else ''}{arm}"
    written = ", ".join(
        f'"{camera.field}": {pose_text(camera.T_base_camera, length_unit)} for {name!r}'
        for name, camera in _undone(trial, cameras).items()
        if name in trial.cameras
    )
    return f"{trial.change.cure if len(trial.cameras) > 1 else 'write'} {written}"


def pose_text(T: Pose, length_unit: str) -> str:
    """As a person writes it into the file."""
    position = np.round(T[:3, 3] / LENGTHS[length_unit], 5 if length_unit == "m" else 2) + 0.0
    quat = np.round(Rotation.from_matrix(T[:3, :3]).as_quat(), 5) + 0.0
    return json.dumps({"position": position.tolist(), "quat_xyzw": quat.tolist()})
