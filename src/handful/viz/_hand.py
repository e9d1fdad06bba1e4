"""The hand in pictures: the shape that was described, or a sketch where none was."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from handful.clouds import PointCloud
from handful.demos import Gripper
from handful.render import Color, ColoredMesh, box_mesh, joined, surface_points

LENGTH = 0.15
"""Length of a hand without a described shape, metres: that of a common hand."""

GREY: Color = (0.62, 0.62, 0.64)

_FINGER = 0.45
"""Length of a sketched finger, as a share of the hand's length."""

_THICKNESS = 0.05
"""Thickness of everything in a sketch, as a share of the hand's length."""

_GRASPED = 0.015
"""Held points up to this far from the contact point across the opening axis are between the
fingers, metres."""

_SHOWN = 0.05
"""Share of a grasp cloud's points on the body of the hand, from which on the cloud shows it."""


def hand_mesh(
    gripper: Gripper, color: Color = GREY, opacity: float = 1.0, width: float | None = None
) -> ColoredMesh:
    """The hand in the gripper frame.

    With a described shape, all of its surfaces; without one, a sketch: two thin fingers that end at
    the contact point, a bar behind them, and a stem along the approach.

    Args:
        gripper: The hand.
        color: Of the mesh.
        opacity: See `ColoredMesh`.
        width: Distance between the fingers, metres; the gripper's opening if not given. It is
            limited to the range that the fingers have.
    """
    wide = gripper.opening if width is None else min(max(width, 0.0), gripper.opening)
    shape = gripper.with_width(wide).shape
    if shape is None:
        return _sketch(gripper, wide, color).recolored(color, opacity)
    return joined(
        [ColoredMesh(vertices, faces, color, opacity) for vertices, faces in shape.surfaces()]
    )


def hand_length(gripper: Gripper) -> float:
    """The scale of pictures of a hand: its length along the approach, or its opening, metres."""
    if gripper.shape is None:
        return max(LENGTH, gripper.opening)
    corners = np.concatenate([vertices for vertices, _ in gripper.shape.surfaces()])
    height = corners @ gripper.T_gripper_contact[:3, 2]
    return max(float(np.ptp(height)), gripper.opening)


def hand_points(gripper: Gripper, count: int = 2000) -> Float[np.ndarray, "count 3"]:
    """Points evenly on the surface of the open hand, the same ones each time; gripper frame."""
    return surface_points(hand_mesh(gripper).triangles, count)


def held_width(gripper: Gripper, grasp: PointCloud) -> float:
    """About how far apart the fingers are that hold what a grasp cloud shows, metres.

    This is the extent of the cloud between the fingers along the opening axis, less the thickness
    of the fingers where the cloud shows the hand.
    """
    local = _in_contact_frame(gripper, grasp.points)
    extent = gripper.opening
    shows_hand = float(gripper.is_hand(grasp.points).mean()) > _SHOWN
    thickness = _finger_thickness(gripper) if shows_hand else 0.0
    between = (np.abs(local[:, 1:]) < _GRASPED).all(axis=1)
    between &= np.abs(local[:, 0]) < (gripper.opening + thickness) / 2.0
    if between.any():
        extent = float(np.ptp(local[between, 0])) - thickness
    return min(max(extent, 0.0), gripper.opening)


def _finger_thickness(gripper: Gripper) -> float:
    """Of both fingers together, along the opening axis at the contact, metres."""
    thickness = {1: 0.0, -1: 0.0}
    for box in () if gripper.shape is None else gripper.shape.boxes:
        local = _in_contact_frame(gripper, box.surface()[0])
        beside = local[:, 2].min() < _GRASPED and local[:, 2].max() > -_GRASPED
        if box.side != 0 and beside:
            thickness[box.side] = max(thickness[box.side], float(np.ptp(local[:, 0])))
    return sum(thickness.values())


def _in_contact_frame(
    gripper: Gripper, points: Float[np.ndarray, "points 3"]
) -> Float[np.ndarray, "points 3"]:
    """Points of the gripper frame in the contact frame, metres."""
    T_gripper_contact = gripper.T_gripper_contact
    return (points - T_gripper_contact[:3, 3]) @ T_gripper_contact[:3, :3]


def _sketch(gripper: Gripper, width: float, color: Color) -> ColoredMesh:
    """Fingers, bar and stem; they are built in the contact frame."""
    length = hand_length(gripper)
    thick = _THICKNESS * length
    half, outer = thick / 2.0, width / 2.0 + thick
    low, bar = -_FINGER * length, -_FINGER * length - thick
    parts = [
        box_mesh((width / 2.0, -half, low), (outer, half, 0.0), color),
        box_mesh((-outer, -half, low), (-width / 2.0, half, 0.0), color),
        box_mesh((-outer, -half, bar), (outer, half, low), color),
        box_mesh((-half, -half, -length), (half, half, bar), color),
    ]
    return joined(parts).transformed(gripper.T_gripper_contact)
