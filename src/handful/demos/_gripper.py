"""The gripper as a contract: where it holds, along which axis it opens, and what it looks like."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int

from handful._checks import shown
from handful._rigid import poses_from_wxyz_xyz
from handful.demos._hand_mesh import MAX_REACH, HandMesh
from handful.errors import DemoError, unknown_name_message

AXES = ("x", "y")
UNIT_TOLERANCE = 1e-2


@dataclass(frozen=True)
class ContactFrame:
    """The contact frame in the gripper frame: its origin is where an object is held.

    Its +z axis is the direction of approach. Any pose is allowed: a gripper frame at the flange
    has the contact 10 to 20 cm in front of it, one at the finger tips (a tool frame) at its origin.

    Attributes:
        position: x, y and z, metres.
        quat_wxyz: Orientation, of length one.
    """

    position: tuple[float, ...]
    quat_wxyz: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        _check_lengths("contact position", self.position)
        _check_quaternion("contact quat_wxyz", self.quat_wxyz)

    @property
    def matrix(self) -> Float[np.ndarray, "4 4"]:
        """The pose as a matrix, float64."""
        return _pose(self.position, self.quat_wxyz)


@dataclass(frozen=True)
class HandBox:
    """A box of the hand, in the gripper frame, with the fingers fully open.

    Attributes:
        center: Its middle, metres.
        size: Whole lengths along its own axes, metres.
        quat_wxyz: Its orientation.
        side: 1 or -1 for a box that moves with the finger on that side of the opening axis, 0 for
            one that does not move.
    """

    center: tuple[float, ...]
    size: tuple[float, ...]
    quat_wxyz: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)
    side: int = 0

    def __post_init__(self) -> None:
        _check_lengths("hand box center", self.center)
        _check_lengths("hand box size", self.size)
        _check_quaternion("hand box quat_wxyz", self.quat_wxyz)
        if min(self.size) <= 0 or self.side not in (-1, 0, 1):
            raise DemoError(f"{self}: need a positive size, and side -1, 0 or 1.")

    def surface(self) -> tuple[Float[np.ndarray, "8 3"], Int[np.ndarray, "12 3"]]:
        """Corners and triangles, gripper frame."""
        corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) / 2.0
        pose = _pose(self.center, self.quat_wxyz)
        return (corners * self.size) @ pose[:3, :3].T + pose[:3, 3], _BOX_FACES


@dataclass(frozen=True)
class HandShape:
    """What the hand looks like with its fingers fully open: boxes, or closed meshes, or both.

    Attributes:
        boxes: They may overlap.
        meshes: They do not move with the fingers.
    """

    boxes: tuple[HandBox, ...] = ()
    meshes: tuple[HandMesh, ...] = ()

    def __post_init__(self) -> None:
        if not self.boxes and not self.meshes:
            raise DemoError("a hand's shape needs one box or mesh, or more.")

    def surfaces(self) -> list[tuple[Float[np.ndarray, "vertices 3"], Int[np.ndarray, "faces 3"]]]:
        """Vertices and triangles of every part, gripper frame."""
        parts: tuple[HandBox | HandMesh, ...] = (*self.boxes, *self.meshes)
        return [part.surface() for part in parts]

    def contains(
        self, points: Float[np.ndarray, "points 3"], margin: float = 0.0
    ) -> Bool[np.ndarray, "points"]:
        """Which points are inside a part, or at most `margin` metres outside of it.

        With a negative margin only points that are deeper inside than that count. A box grows by
        the margin along its axes. A mesh does so by the distance to the nearest of its points.
        """
        inside = np.zeros(len(points), dtype=bool)
        for box in self.boxes:
            pose = _pose(box.center, box.quat_wxyz)
            local = np.abs((points - pose[:3, 3]) @ pose[:3, :3])
            inside |= (local <= np.array(box.size) / 2.0 + margin).all(axis=1)
        for mesh in self.meshes:
            inside |= mesh.contains(points, margin)
        return inside


@dataclass(frozen=True)
class Gripper:
    """A parallel gripper: all that is needed to grasp with it and to check a grasp.

    Attributes:
        contact: The contact frame in the gripper frame. The query point of a model for an empty
            gripper stands at its origin.
        axis: The axis of the contact frame, `x` or `y`, along which the fingers open.
        opening: Largest distance between the fingers, metres.
        shape: What the hand looks like; None when it is not known. Without it, collisions of the
            hand are not checked, and pictures show a sketch.
        name: Of a known hand (`gripper_named`); empty for others.
    """

    contact: ContactFrame
    axis: str
    opening: float
    shape: HandShape | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.axis not in AXES:
            raise DemoError(unknown_name_message("gripper axis", self.axis, AXES))
        if not (math.isfinite(self.opening) and 0.001 <= self.opening <= 1.0):
            raise DemoError(f"gripper opening is {self.opening}: need metres, 0.001 to 1.")

    @property
    def T_gripper_contact(self) -> Float[np.ndarray, "4 4"]:
        """The contact frame, turned about its z axis such that the fingers open along its x axis.

        Frames of this kind are what two grippers have in common.
        """
        pose = self.contact.matrix
        if self.axis == "y":
            pose[:3, :2] = np.stack([pose[:3, 1], -pose[:3, 0]], axis=1)
        return pose

    def T_gripper_other(self, other: Gripper) -> Float[np.ndarray, "4 4"]:
        """The frame of another gripper in this one's, when both hold the same thing alike."""
        return self.T_gripper_contact @ np.linalg.inv(other.T_gripper_contact)

    def with_width(self, width: float) -> Gripper:
        """The gripper with its fingers `width` metres apart: their boxes are moved inwards."""
        if self.shape is None:
            return self
        inwards = (self.opening - min(max(width, 0.0), self.opening)) / 2.0
        along = self.T_gripper_contact[:3, 0]
        boxes = tuple(
            replace(box, center=tuple((np.array(box.center) - box.side * inwards * along).tolist()))
            for box in self.shape.boxes
        )
        return replace(self, shape=replace(self.shape, boxes=boxes))

    def is_hand(
        self, points: Float[np.ndarray, "points 3"], margin: float = 0.006, behind: float = 0.04
    ) -> Bool[np.ndarray, "points"]:
        """Which points of a grasp cloud are of the hand's body and not of what is held.

        Args:
            points: In the gripper frame, metres.
            margin: Points up to this far outside of the described shape count, metres.
            behind: Points less far behind the contact do not count, metres: there the fingers hold
                the object.
        """
        if self.shape is None:
            return np.zeros(len(points), dtype=bool)
        pose = self.T_gripper_contact
        height = (points - pose[:3, 3]) @ pose[:3, 2]
        return (height < -behind) & self.shape.contains(points.astype(np.float64), margin)

    def may_be_finger(
        self, points: Float[np.ndarray, "points 3"], margin: float = 0.006
    ) -> Bool[np.ndarray, "points"]:
        """Which points of a grasp cloud are where a finger is at some width.

        Args:
            points: In the gripper frame, metres.
            margin: Points up to this far outside of a finger count, metres.
        """
        found = np.zeros(len(points), dtype=bool)
        fingers = () if self.shape is None else tuple(box for box in self.shape.boxes if box.side)
        if not fingers:
            return found
        for width in np.linspace(0.0, self.opening, 2 + math.ceil(self.opening / (2.0 * margin))):
            shape = replace(self, shape=HandShape(fingers)).with_width(float(width)).shape
            assert shape is not None
            found |= shape.contains(points.astype(np.float64), margin)
        return found


def gripper_from_tip(tip: float, opening: float, axis: str) -> Gripper:
    """The gripper of a demonstration set of version 1: its finger tips are the contact.

    Version 1 knew the height of the finger tips and no shape. The shape is that of a common hand,
    scaled to that height, which is also how pictures used to show it.

    Args:
        tip: Height z of the finger tips in the gripper frame, metres.
        opening: Distance between the open fingers, metres.
        axis: The axis of the gripper frame along which the fingers open.
    """
    if not (math.isfinite(tip) and 0.005 <= tip <= 1.0):
        raise DemoError(f"gripper tip is {tip}: need metres, 0.005 to 1.")
    scale = tip / 0.15
    low, high, thick, wide = 0.02 * scale, 0.065 * scale, 0.009 * scale, 0.022 * scale
    reach = max(0.062 * scale, opening / 2.0 + thick)
    turn = (1.0, 0.0, 0.0, 0.0) if axis == "x" else (math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5))
    palm = HandBox((0.0, 0.0, (low + high) / 2.0), (2.0 * reach, 0.056 * scale, high - low), turn)
    wrist = HandBox((0.0, 0.0, 0.0), (0.072 * scale, 0.072 * scale, 2.0 * low), turn)
    fingers = tuple(
        HandBox(
            _along(axis, side * (opening + thick) / 2.0, (tip + high) / 2.0),
            (thick, wide, tip - high),
            turn,
            side,
        )
        for side in (1, -1)
    )
    shape = HandShape((palm, wrist, *fingers))
    return Gripper(ContactFrame((0.0, 0.0, tip)), axis, opening, shape)


def _along(axis: str, offset: float, height: float) -> tuple[float, float, float]:
    return (offset, 0.0, height) if axis == "x" else (0.0, offset, height)


def _pose(position: tuple[float, ...], quat_wxyz: tuple[float, ...]) -> Float[np.ndarray, "4 4"]:
    return _known_pose(position, quat_wxyz).copy()


@lru_cache(maxsize=4096)
def _known_pose(
    position: tuple[float, ...], quat_wxyz: tuple[float, ...]
) -> Float[np.ndarray, "4 4"]:
    """Grippers ask for the same few poses thousands of times."""
    quat = np.array(quat_wxyz, dtype=np.float64)
    both = np.concatenate([quat / np.linalg.norm(quat), np.array(position, dtype=np.float64)])
    return poses_from_wxyz_xyz(both)


def _check_lengths(what: str, values: tuple[float, ...]) -> None:
    if len(values) != 3 or not all(map(math.isfinite, values)):
        raise DemoError(f"{what} is {shown(values)}: need 3 finite numbers.")
    if max(map(abs, values)) > MAX_REACH:
        raise DemoError(f"{what} is {values}: need metres, at most {MAX_REACH:g} each.")


def _check_quaternion(what: str, values: tuple[float, ...]) -> None:
    if len(values) != 4 or not all(map(math.isfinite, values)):
        raise DemoError(f"{what} is {shown(values)}: need 4 finite numbers.")
    if abs(math.hypot(*values) - 1.0) > UNIT_TOLERANCE:
        raise DemoError(f"{what} is {values}: need length 1, not {math.hypot(*values):.4g}.")


_BOX_FACES = np.array(
    [
        [0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1],
        [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3],
    ]
)  # fmt: skip
