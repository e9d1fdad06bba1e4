"""The usual mistakes: what each looks like to people, how it is cured, and how it is undone here.

Undoing a mistake gives the demonstrations as they would be without it. If that mends what is wrong,
the mistake was probably made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from handful.checks._mending import (
    Mend,
    clouds_exchanged,
    grasp_from_before,
    grasp_from_scene,
    grasp_scaled,
    in_each,
    in_gripper_frame,
    in_poses,
    poses_exchanged,
    reordered,
    rolled,
    scaled,
    scene_moved,
    scene_scaled,
    transposed,
    with_contact_at,
)
from handful.checks._recorded import Recorded
from handful.demos import Gripper

SCALES = {
    1000.0: "a thousand times too small: metres were taken for millimetres",
    100.0: "a hundred times too small: metres were taken for centimetres",
    0.01: "a hundred times too large: they are in centimetres",
    0.001: "a thousand times too large: they are in millimetres",
}
"""Factor that mends a unit, and what was wrong."""

TIPS = tuple(0.03 * number for number in (*range(-8, 0), *range(1, 9)))
"""Metres by which a contact point is tried to be too far from the gripper frame. Half of the step
is less than what the space between the fingers forgives."""


@dataclass(frozen=True)
class Mistake:
    """One usual mistake.

    Attributes:
        kind: Short name, for tables and tests.
        told: What is wrong, one sentence.
        cure: What to do, one sentence.
        mend: Undoes it.
        surprise: How unusual it is, 0 for the most usual; decides between mistakes that explain
            the data alike.
        whole: It is of the set as a whole, not of some demonstrations or steps.
        neighbours: It mixes demonstrations up, so that it is tried on all of them.
    """

    kind: str
    told: str
    cure: str
    mend: Mend
    surprise: float = 0.0
    whole: bool = False
    neighbours: bool = False


def usual_mistakes(gripper: Gripper, demos: int) -> list[Mistake]:
    """All that are tried.

    Args:
        gripper: Of the demonstrations; cures name its numbers.
        demos: Number of demonstrations.
    """
    return [
        *_rotations(),
        *_frames(gripper),
        *_tips(gripper),
        *_exchanges(demos),
        *_axes(),
        *_units(),
    ]


def _rotations() -> Iterator[Mistake]:
    yield Mistake(
        "quaternion xyzw as wxyz",
        "the quaternions are in the order x, y, z, w, and were read as w, x, y, z",
        "name them `quat_xyzw` (JSON), `target_pose_xyzw_xyz` (NPZ), or order the columns (CSV)",
        in_poses(lambda T: reordered(T, (3, 0, 1, 2))),
    )
    yield Mistake(
        "quaternion wxyz as xyzw",
        "the quaternions are in the order w, x, y, z, and were read as x, y, z, w",
        "name them `quat_wxyz` (JSON), `target_pose_wxyz_xyz` (NPZ), or order the columns (CSV)",
        in_poses(lambda T: reordered(T, (1, 2, 3, 0))),
    )
    yield Mistake(
        "inverse pose",
        "the poses are T_gripper_scene, the inverse of what is needed",
        "invert them: T_scene_gripper = inverse(T_gripper_scene), the gripper in the scene frame",
        in_poses(np.linalg.inv),
    )
    yield Mistake(
        "rotation inverted",
        "the rotations of the poses are inverted (transposed, or quaternions with -x, -y, -z)",
        "transpose the rotation, or change the sign of the quaternion's x, y and z",
        in_poses(transposed),
        surprise=0.3,
    )


def _frames(gripper: Gripper) -> Iterator[Mistake]:
    """Other axes of the gripper frame; the axis of the fingers has no sign."""
    contact = gripper.T_gripper_contact[:3, :3]
    names = {"x": (1, 0, 0), "-x": (-1, 0, 0), "y": (0, 1, 0), "-y": (0, -1, 0),
             "z": (0, 0, 1), "-z": (0, 0, -1)}  # fmt: skip
    own = _name_of(contact[:, 2])
    for name, direction in names.items():
        approach = np.array(direction, dtype=np.float64)
        for other in "xyz":
            opening = np.array(names[other], dtype=np.float64)
            if abs(approach @ opening) > 0.5:
                continue
            frame = np.stack([opening, np.cross(approach, opening), approach], axis=1)
            turn = frame @ contact.T
            if np.allclose(frame[:, 2], contact[:, 2]) and np.allclose(
                np.abs(frame[:, 0]), np.abs(contact[:, 0])
            ):
                continue
            yield from _frame(gripper, turn, name, own, other)


def _frame(
    gripper: Gripper, turn: Float[np.ndarray, "3 3"], name: str, own: str, opening: str
) -> Iterator[Mistake]:
    position = turn @ gripper.T_gripper_contact[:3, 3]
    frame = turn @ gripper.T_gripper_contact[:3, :3]
    quat = np.roll(Rotation.from_matrix(frame).as_quat(), 1)
    numbers = (
        f'"contact": {{"position": {_list(position)}, "quat_wxyz": {_list(quat)}}}, "axis": "x"'
    )
    same = name == own
    kind = "fingers open along the other axis" if same else f"approach along {name}"
    told = f"the fingers open along the gripper frame's {opening} axis"
    if not same:
        told = f"the hand approaches along the {name} axis of its poses, not {own}, and {told}"
    motion = np.eye(4)
    motion[:3, :3] = turn
    surprise = 0.0 if name in ("-z", "x", "z") else 0.2
    yield Mistake(
        kind,
        told,
        f"describe the gripper in the frame of the poses, with its shape: {numbers}; "
        "or turn the poses and grasp clouds",
        in_gripper_frame(motion, with_grasp=True),
        surprise,
    )
    yield Mistake(
        kind,
        f"{told}; the grasp clouds are right",
        f"multiply the poses from the right by the rotation {_rows(turn)}",
        in_gripper_frame(motion, with_grasp=False),
        surprise + 0.2,
    )


def _tips(gripper: Gripper) -> Iterator[Mistake]:
    tool = float(gripper.T_gripper_contact[:3, 2] @ gripper.T_gripper_contact[:3, 3])
    for length in (*TIPS, tool) if abs(tool) > 0.02 else TIPS:
        yield from _tip(gripper, length)


def _tip(gripper: Gripper, length: float) -> Iterator[Mistake]:
    """A contact point that is `length` metres too far from the gripper frame."""
    approach = gripper.T_gripper_contact[:3, 2]
    kind = "tip too long" if length > 0 else "tip too short"
    where = gripper.T_gripper_contact[:3, 3] - length * approach
    amount = f"about {abs(length) * 100:.0f} cm too {'far forward' if length > 0 else 'far back'}"
    back = np.eye(4)
    back[:3, 3] = -length * approach
    tcp = float(np.linalg.norm(where)) < 0.012
    yield Mistake(
        kind,
        f"the gripper's contact point is {amount} along the approach",
        f'measure the gripper: `contact` seems to be at "position": {_list(where)}',
        lambda one: replace(one, gripper=with_contact_at(gripper, where)),
        surprise=0.1,
        whole=True,
    )
    told = f"the described hand, with its contact point, is {amount} along the approach"
    if tcp:
        told = "the poses are of the finger tips (a tool frame), the gripper is described from "
        told += "its flange"
    yield Mistake(
        kind,
        told,
        f'in the frame of the poses `contact` seems to be at "position": {_list(where)}: '
        "describe contact and shape in that frame, or give poses of the described one",
        in_gripper_frame(back, with_grasp=True),
        surprise=0.05 if tcp else 0.15,
    )
    yield Mistake(
        kind,
        f"{told}; the grasp clouds are right",
        f"move the poses by {-1e3 * length:.0f} mm along the approach, or give poses of the "
        "described gripper frame",
        in_gripper_frame(back, with_grasp=False),
        surprise=0.25 if tcp else 0.35,
    )


def _exchanges(demos: int) -> Iterator[Mistake]:
    yield Mistake(
        "scene and grasp exchanged",
        "scene and grasp clouds are exchanged",
        "exchange `scene` and `grasp`: the scene is what the gripper goes to, the grasp is what "
        "it holds",
        in_each(clouds_exchanged),
    )
    yield Mistake(
        "grasp in scene frame",
        "the grasp clouds are in the scene frame, at their target poses",
        "move them into the gripper frame: grasp.transformed(inverse(T_scene_gripper)) with the "
        "pose of the hand when it was seen",
        in_each(grasp_from_scene),
    )
    yield Mistake(
        "grasp in scene frame",
        "the grasp clouds are in the scene frame, at the pose where the thing was taken",
        "move them into the gripper frame: grasp.transformed(inverse(T_scene_gripper)) with the "
        "pose of the hand when it was seen",
        grasp_from_before,
        surprise=0.1,
    )
    yield Mistake(
        "poses of steps exchanged",
        "the target poses of one step and the next are exchanged",
        "give each step its own poses",
        poses_exchanged,
        surprise=0.1,
        whole=True,
    )
    for shift in (1, -1) if demos > 1 else ():
        which = "previous" if shift > 0 else "next"
        yield Mistake(
            "poses of another demonstration",
            f"the poses belong to the {which} demonstration's clouds",
            "pair poses and clouds of the same recording: they are off by one",
            rolled(-shift),
            surprise=0.2,
            neighbours=True,
        )


def _axes() -> Iterator[Mistake]:
    """Scene or poses with other axes than the other of the two, about the same origin."""
    turns = {
        "y up": Rotation.from_euler("x", 90, degrees=True),
        "y down (a camera's axes)": Rotation.from_euler("x", -90, degrees=True),
        "z forward and y down (a camera's axes)": Rotation.from_matrix(
            [[0, 0, 1], [-1, 0, 0], [0, -1, 0]]
        ),
        "y and z reversed": Rotation.from_euler("x", 180, degrees=True),
    }
    for name, turn in turns.items():
        motion = np.eye(4)
        motion[:3, :3] = turn.as_matrix()
        yield Mistake(
            "scene axes",
            f"the scene clouds have {name}, the poses do not",
            f"turn the clouds by the rotation {_rows(motion[:3, :3])}",
            in_each(partial(scene_moved, T=motion)),
            surprise=0.2,
        )
        yield Mistake(
            "pose axes",
            f"the poses have {name}, the scene clouds do not",
            f"multiply the poses from the left by the rotation {_rows(motion[:3, :3])}",
            in_poses(partial(np.matmul, motion)),
            surprise=0.2,
        )


def _units() -> Iterator[Mistake]:
    for factor, told in SCALES.items():
        yield Mistake(
            "unit of poses",
            f"the positions of the poses are {told}",
            f"multiply the positions of the poses by {factor:g}",
            in_poses(partial(scaled, factor=factor)),
            surprise=0.1,
        )
        yield Mistake(
            "unit of scenes",
            f"the scene clouds are {told}",
            f"multiply the scene clouds by {factor:g}",
            in_each(partial(scene_scaled, factor=factor)),
            surprise=0.1,
        )
        yield Mistake(
            "unit of grasps",
            f"the grasp clouds are {told}",
            f"multiply the grasp clouds by {factor:g}",
            in_each(partial(grasp_scaled, factor=factor)),
            surprise=0.1,
        )


def turned_upright(recorded: Recorded) -> Mistake | None:
    """Clouds and poses that are right relative to each other, but not z up; None if they are."""
    planes = [shown.scene.plane for shown in recorded.steps]
    normals = [plane.normal for plane in planes if plane is not None]
    if not normals:
        return None
    up = np.median(normals, axis=0)
    up /= np.linalg.norm(up)
    angle = float(np.degrees(np.arccos(np.clip(up[2], -1.0, 1.0))))
    if angle < 5.0:
        return None
    turn = Rotation.align_vectors([[0.0, 0.0, 1.0]], [up])[0].as_matrix()
    motion = np.eye(4)
    motion[:3, :3] = turn
    axis = _name_of(up)
    straight = bool(np.abs(up).max() > np.cos(np.radians(5.0)))
    told = f"clouds and poses are in a frame whose up is {axis}, not z"
    if axis == "-z" or not straight:
        told = (
            f"clouds and poses are in the frame of a camera (y down, z forward), where up is "
            f"{_list(up)}"
        )
    return Mistake(
        "y up" if straight and axis != "-z" else "camera frame",
        told,
        "bring clouds and poses into a frame that is z up, for example the robot's base, by the "
        f"pose of the camera; the rotation is {_rows(turn)} or one with another yaw",
        in_each(
            lambda shown: replace(
                shown, scene=shown.scene.moved(motion), targets=motion @ shown.targets
            )
        ),
        surprise=0.1,
    )


def _name_of(direction: Float[np.ndarray, "3"]) -> str:
    axis = int(np.abs(direction).argmax())
    return ("-" if direction[axis] < 0 else "") + "xyz"[axis]


def _list(values: Float[np.ndarray, "_"]) -> str:
    return "[" + ", ".join(f"{round(value, 4) + 0.0:g}" for value in values.tolist()) + "]"


def _rows(matrix: Float[np.ndarray, "3 3"]) -> str:
    return "[" + ", ".join(_list(row) for row in matrix) + "]"
