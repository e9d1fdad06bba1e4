"""The same hand with its frame elsewhere, and where its finger tips are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from edf_mug.cylinders import Array
from handful.demos import ContactFrame, Gripper, HandShape


def T_gripper_tips(gripper: Gripper) -> Array:
    """The frame in the middle between the finger tips: the contact frame, moved ahead to them.

    Its x axis is the one along which the fingers open, its z axis is the approach. The tips are
    where the boxes of the fingers end.

    Raises:
        ValueError: The gripper's description has no fingers.
    """
    T_gripper_contact = gripper.T_gripper_contact
    boxes = gripper.shape.boxes if gripper.shape is not None else ()
    corners = [box.surface()[0] for box in boxes if box.side != 0]
    if not corners:
        raise ValueError(f"gripper {gripper.name!r} has no boxes of fingers: describe its shape.")
    ahead = (np.concatenate(corners) - T_gripper_contact[:3, 3]) @ T_gripper_contact[:3, 2]
    T_contact_tips = np.eye(4)
    T_contact_tips[2, 3] = ahead.max()
    return T_gripper_contact @ T_contact_tips


def in_another_frame(gripper: Gripper, T_new_old: Array) -> Gripper:
    """The same hand, described in another frame that is fixed to it.

    Args:
        gripper: The hand in its old frame.
        T_new_old: The old frame in the new one [4, 4].
    """
    turn = Rotation.from_matrix(T_new_old[:3, :3])

    def moved(position: tuple[float, ...]) -> tuple[float, ...]:
        return tuple((turn.apply(position) + T_new_old[:3, 3]).tolist())

    def turned(quat_wxyz: tuple[float, ...]) -> tuple[float, ...]:
        own = Rotation.from_quat(np.roll(quat_wxyz, -1))
        return tuple(np.roll((turn * own).as_quat(), 1).tolist())

    contact = ContactFrame(moved(gripper.contact.position), turned(gripper.contact.quat_wxyz))
    if gripper.shape is None:
        return replace(gripper, contact=contact)
    boxes = tuple(
        replace(box, center=moved(box.center), quat_wxyz=turned(box.quat_wxyz))
        for box in gripper.shape.boxes
    )
    meshes = tuple(
        replace(mesh, vertices=tuple(moved(vertex) for vertex in mesh.vertices))
        for mesh in gripper.shape.meshes
    )
    return replace(gripper, contact=contact, shape=HandShape(boxes, meshes))
