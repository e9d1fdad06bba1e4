"""The hand in view: what it holds is cut out for the grasp cloud, and both leave the scene.

What is cut by is the gripper's described shape and its recorded pose. Nobody says how far the
fingers are apart: they are looked for at every width.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from handful.clouds import PointCloud
from handful.demos import Gripper, HandShape
from handful.errors import DemoError

HELD_REACH = 0.25
"""Metres from the contact point within which all of what is held is, if nothing else is said."""
BODY_MARGIN = 0.012
"""Metres: points nearer to the hand than this are the hand's. Errors of hand-eye calibration and
noise of a depth camera at half a metre, together."""

_GRAIN, _LINK = 0.006, 0.02
"""Points are joined that are at most `_LINK` metres apart, in a cloud thinned to `_GRAIN`."""
_EDGE = 0.01
"""Metres from the end of the reach: what comes this near goes on beyond it."""
_GRASPED = (0.02, 0.04)
"""Metres beside the contact, across the opening, and behind it, where held things are touched."""
_FEWEST = 20
"""Points of a held thing; fewer say nothing."""

Pose = Float[np.ndarray, "4 4"]
Points = Float[np.ndarray, "points 3"]
Flags = Bool[np.ndarray, "points"]


class NothingHeldError(DemoError):
    """Nothing is seen between the fingers."""


def need_shape(gripper: Gripper) -> HandShape:
    """The described shape.

    Raises:
        DemoError: There is none, and without it a hand in view cannot be told from other things.
    """
    if gripper.shape is None:
        raise DemoError(
            "the gripper has no shape, and it is in view: describe it by a few boxes, "
            '"shape": {"boxes": [{"center": [x, y, z], "size": [x, y, z]}]}, metres, gripper frame.'
        )
    return gripper.shape


def is_hand(points: Points, gripper: Gripper) -> Flags:
    """Which points, in the gripper frame, are of the hand at any width of its fingers."""
    shape = need_shape(gripper)
    fixed = tuple(box for box in shape.boxes if box.side == 0)
    found = gripper.may_be_finger(points, BODY_MARGIN)
    if fixed or shape.meshes:
        found |= HandShape(fixed, shape.meshes).contains(points, BODY_MARGIN)
    return found


def is_held(points: Points, gripper: Gripper, reach: float = HELD_REACH) -> Flags:
    """Which points, in the gripper frame, are of what the gripper holds, or of its finger tips.

    Held is what hangs together with the space between the fingers, in front of the hand's body.

    Args:
        points: Of everything that was seen, gripper frame, metres.
        gripper: With a described shape.
        reach: Metres from the contact point within which all of what is held is.

    Raises:
        NothingHeldError: Nothing is there.
        DemoError: It hangs together with something beyond the reach.
    """
    contact = gripper.T_gripper_contact
    local = (points - contact[:3, 3]) @ contact[:3, :3]
    near = (np.linalg.norm(local, axis=1) <= reach) & ~_behind(points, gripper)
    side, back = _GRASPED
    body = near & (local[:, 2] < -back)
    body[body] = is_hand(points[body], gripper)
    (kept,) = np.nonzero(near & ~body)
    held = np.zeros(len(points), dtype=bool)
    if len(kept) >= _FEWEST:
        part = _parts(local[kept])
        grasped = (np.abs(local[kept, 0]) <= gripper.opening / 2.0 + side) & (
            np.abs(local[kept, 1]) <= side
        )
        grasped &= (local[kept, 2] >= -back) & (local[kept, 2] <= side)
        held[kept] = np.isin(part, np.unique(part[grasped]))
    if held.sum() < _FEWEST:
        raise NothingHeldError(
            f"{int(held.sum())} points are between the fingers at the recorded pose: need at least "
            f"{_FEWEST}. Check that the pose belongs to this picture, that the camera's pose is "
            "right, and that the object is in view."
        )
    far = float(np.linalg.norm(local[held], axis=1).max())
    if far > reach - _EDGE:
        raise DemoError(
            f"what is held goes on beyond {reach:g} m from the contact point, or touches something "
            f"that does: hold it {_LINK * 100:g} cm or more clear of everything, or say how far it "
            "reaches with a larger held_reach."
        )
    return held


def _behind(points: Points, gripper: Gripper) -> Flags:
    """Which points are behind the back of the hand: the arm."""
    shape = need_shape(gripper)
    approach = gripper.T_gripper_contact[:3, 2]
    corners = np.concatenate([vertices for vertices, _ in shape.surfaces()])
    return points @ approach < float((corners @ approach).min()) + BODY_MARGIN


def _parts(points: Points) -> Int[np.ndarray, "points"]:
    """The number of the part of the cloud that each point belongs to."""
    cell = np.floor((points - points.min(axis=0)) / _GRAIN).astype(np.int64)
    cells, owner = np.unique(cell, axis=0, return_inverse=True)
    middles = (cells + 0.5) * _GRAIN
    pairs = cKDTree(middles).query_pairs(_LINK, output_type="ndarray")
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(cells),) * 2)
    _, part = connected_components(links, directed=False)
    return part[owner.reshape(-1)].astype(np.int64)


def in_gripper_frame(cloud: PointCloud, T_scene_gripper: Pose) -> Points:
    """The points of a cloud of the scene in the gripper frame, metres."""
    points = cloud.points.astype(np.float64)
    return (points - T_scene_gripper[:3, 3]) @ T_scene_gripper[:3, :3]
