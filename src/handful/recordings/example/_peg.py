"""A peg that goes into a box, with a gripper of its own; metres, in the frame of a robot's base."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from handful.demos import ContactFrame, Gripper, HandBox, HandShape
from handful.render import Color, ColoredMesh, box_mesh, joined, revolved_mesh

Pose = Float[np.ndarray, "4 4"]

TABLE_MIDDLE = (0.45, 0.0)
"""Of the table, x and y."""
SHAFT_RADIUS, SHAFT_LENGTH = 0.014, 0.075
HEAD_RADIUS, HEAD_HEIGHT = 0.027, 0.024
BOX_SIZE = (0.16, 0.12, 0.09)
FLOOR = 0.004
"""Thickness of the bottom: its inside is seen through the hole."""
HOLE_RADIUS, HOLE_AT = 0.022, 0.032
"""The hole in the lid, and how far it is from the lid's middle along the box."""

PEG_YELLOW: Color = (0.90, 0.68, 0.12)
BOX_BLUE: Color = (0.16, 0.32, 0.72)
TABLE_WHITE: Color = (0.72, 0.70, 0.66)
HAND_GREY: Color = (0.35, 0.35, 0.37)

GRIPPER = Gripper(
    contact=ContactFrame((0.0, 0.0, 0.135)),
    axis="y",
    opening=0.09,
    shape=HandShape(
        (
            HandBox((0.0, 0.0, 0.0125), (0.075, 0.075, 0.025)),
            HandBox((0.0, 0.0, 0.0425), (0.05, 0.14, 0.035)),
            HandBox((0.0, 0.051, 0.1025), (0.022, 0.012, 0.085), side=1),
            HandBox((0.0, -0.051, 0.1025), (0.022, 0.012, 0.085), side=-1),
        )
    ),
)
"""Its frame is the flange. The fingers end 1 cm beyond the contact."""

_REACH = (0.15, 0.17)
"""How far from the table's middle things stand, along x and y."""
_CLEAR = 0.19
"""Least distance of the peg from the middle of the box, seen from above: room for the hand."""
_TILT = 0.07
"""Radians by which a person's grasp is off upright, at most."""


@dataclass(frozen=True, eq=False)
class PegLayout:
    """What differs from one recording to the next.

    Attributes:
        T_robot_peg: The peg, upright on the table; its frame is at the middle of its foot.
        T_robot_box: The box on the table; its frame is at the middle of its bottom.
        T_peg_gripper: How it is held.
        T_box_peg: The peg in the hole, its head on the lid.
    """

    T_robot_peg: Pose
    T_robot_box: Pose
    T_peg_gripper: Pose
    T_box_peg: Pose

    @property
    def T_robot_grasp(self) -> Pose:
        """Where the gripper closes."""
        return self.T_robot_peg @ self.T_peg_gripper

    @property
    def T_robot_release(self) -> Pose:
        """Where the gripper opens."""
        return self.T_robot_box @ self.T_box_peg @ self.T_peg_gripper


def random_layout(rng: np.random.Generator) -> PegLayout:
    """Peg and box anywhere on the table, the box and the grasp any way round."""
    while True:
        peg, box = rng.uniform(-1.0, 1.0, size=(2, 2)) * _REACH + TABLE_MIDDLE
        if np.linalg.norm(peg - box) > _CLEAR:
            break
    yaw, grasp, spin = rng.uniform(-np.pi, np.pi, size=3)
    tilt = rng.uniform(-_TILT, _TILT, size=2)
    depth = SHAFT_LENGTH + HEAD_HEIGHT / 2.0 + rng.uniform(-0.002, 0.002)
    down = Rotation.from_euler("z", grasp) * Rotation.from_euler("xy", [np.pi + tilt[0], tilt[1]])
    T_peg_gripper = pose(down.as_matrix(), np.zeros(3))
    T_peg_gripper[:3, 3] = [0.0, 0.0, depth]
    T_peg_gripper[:3, 3] -= T_peg_gripper[:3, :3] @ np.array(GRIPPER.contact.position)
    return PegLayout(
        pose(np.eye(3), np.array([*peg, 0.0])),
        pose(_about_z(yaw), np.array([*box, 0.0])),
        T_peg_gripper,
        pose(_about_z(spin), np.array([HOLE_AT, 0.0, BOX_SIZE[2] - SHAFT_LENGTH])),
    )


def pose(rotation: Float[np.ndarray, "3 3"], position: Float[np.ndarray, "3"]) -> Pose:
    """A rigid motion as a matrix."""
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = rotation, position
    return matrix


def table_mesh() -> ColoredMesh:
    """The table; its surface is z = 0."""
    x, y = TABLE_MIDDLE
    return box_mesh((x - 0.5, y - 0.5, -0.03), (x + 0.5, y + 0.5, 0.0), TABLE_WHITE)


def peg_mesh() -> ColoredMesh:
    """The peg in its own frame: a shaft below and a wider head on it."""
    top = SHAFT_LENGTH + HEAD_HEIGHT
    profile = [
        [0.0, 0.0],
        [SHAFT_RADIUS, 0.0],
        [SHAFT_RADIUS, SHAFT_LENGTH],
        [HEAD_RADIUS, SHAFT_LENGTH],
        [HEAD_RADIUS, top],
        [0.0, top],
    ]
    return revolved_mesh(np.array(profile), PEG_YELLOW, 48)


def box_with_hole_mesh(corners: int = 64) -> ColoredMesh:
    """The box in its own frame: bottom, four sides, and a lid with a round hole."""
    half_x, half_y, top = BOX_SIZE[0] / 2.0, BOX_SIZE[1] / 2.0, BOX_SIZE[2]
    angle = np.linspace(0.0, 2.0 * np.pi, corners, endpoint=False)
    ends = np.arctan2(half_y, half_x - HOLE_AT), np.arctan2(half_y, -half_x - HOLE_AT)
    angle = np.sort(np.concatenate([angle, ends, -np.array(ends) % (2.0 * np.pi)]))
    way = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    hole = np.array([HOLE_AT, 0.0]) + HOLE_RADIUS * way
    with np.errstate(divide="ignore"):
        across = (np.where(way[:, 0] > 0, half_x, -half_x) - HOLE_AT) / way[:, 0]
        along = half_y / np.abs(way[:, 1])
    edge = np.array([HOLE_AT, 0.0]) + np.minimum(across, along)[:, None] * way
    rings = [
        (hole, top - 0.008),
        (hole, top),
        (edge, top),
        (edge, 0.0),
        (edge, FLOOR),
        (0.0 * edge, FLOOR),
    ]
    count = len(angle)
    vertices = np.concatenate(
        [np.concatenate([flat, np.full((count, 1), height)], axis=1) for flat, height in rings]
    )
    here = np.arange(count)
    after = (here + 1) % count
    faces = []
    for ring in range(len(rings) - 1):
        low, high = ring * count, (ring + 1) * count
        faces.append(np.stack([low + here, high + here, high + after], axis=1))
        faces.append(np.stack([low + here, high + after, low + after], axis=1))
    return ColoredMesh(vertices, np.concatenate(faces), BOX_BLUE)


def hand_mesh(width: float) -> ColoredMesh:
    """The hand with its fingers `width` apart, and the forearm behind it, gripper frame."""
    shape = GRIPPER.with_width(width).shape
    assert shape is not None
    parts = [ColoredMesh(vertices, faces, HAND_GREY) for vertices, faces in shape.surfaces()]
    arm = box_mesh((-0.045, -0.045, -0.3), (0.045, 0.045, 0.0), HAND_GREY)
    return joined([*parts, arm])


def _about_z(angle: float) -> Float[np.ndarray, "3 3"]:
    return Rotation.from_euler("z", angle).as_matrix()
