"""Where things stand, where the gripper takes the mug, and how the mug hangs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.demos.synthetic._shapes import HangerShape, MugShape
from handful.errors import DemoError

Pose = Float[np.ndarray, "4 4"]

TIP = 0.15
"""Height of the finger tips in the gripper frame, metres."""

HANG_TILT = 1.2
"""Radians that a hanging mug is turned from upright, about where its weight would bring it."""

HANG_ALONG = 0.6
"""Where the mug hangs, as a share of the arm's length."""

HANG_GAP = 2e-4
"""Free space between the handle and the arm, metres."""

_REACH = 0.19
"""How far from the middle of the table things stand at most, along x and y, metres."""

_CLEAR = 0.14
"""Smallest distance of the mug's axis from the hanger, seen from above, metres."""


@dataclass(frozen=True, eq=False)
class Layout:
    """What is random in a demonstration.

    Attributes:
        T_scene_mug: The mug upright on the table.
        T_scene_hanger: The hanger on the table.
        rim_angle: Where the gripper takes the rim, radians about the mug's axis from the handle.
        depth: How far the finger tips go below the rim, metres.
    """

    T_scene_mug: Pose
    T_scene_hanger: Pose
    rim_angle: float
    depth: float


def random_layout(rng: np.random.Generator, hanger: HangerShape) -> Layout:
    """Mug and hanger anywhere on the table, any way round, clear of each other.

    The rim is taken within 45 degrees of the point opposite the handle, 2 to 3 cm deep.
    """
    while True:
        mug_place, hanger_place = rng.uniform(-_REACH, _REACH, size=(2, 2))
        mug_yaw, hanger_yaw = rng.uniform(-np.pi, np.pi, size=2)
        arm = hanger.arm_point(hanger.arm_length)[0]
        end = hanger_place + arm * np.array([np.cos(hanger_yaw), np.sin(hanger_yaw)])
        on_table = np.abs(end).max() <= _REACH + 0.05
        if on_table and _distance_to_segment(mug_place, hanger_place, end) > _CLEAR:
            break
    return Layout(
        standing_pose(mug_place, mug_yaw),
        standing_pose(hanger_place, hanger_yaw),
        np.pi + rng.uniform(-np.pi / 4, np.pi / 4),
        rng.uniform(0.02, 0.03),
    )


def standing_pose(place: Float[np.ndarray, "2"], yaw: float) -> Pose:
    """Upright on the table at x, y, turned by `yaw` radians about z."""
    pose = np.eye(4)
    pose[:2, :2] = [[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]]
    pose[:2, 3] = place
    return pose


def rim_grasp(mug: MugShape, angle: float, depth: float) -> Pose:
    """T_mug_gripper of a gripper that comes down along the mug's axis, astride its wall.

    Args:
        mug: The mug.
        angle: Where on the rim, radians about the mug's axis from the handle.
        depth: How far the finger tips are below the rim, metres.
    """
    outward = np.array([np.cos(angle), np.sin(angle), 0.0])
    down = np.array([0.0, 0.0, -1.0])
    pose = np.eye(4)
    pose[:3, :3] = np.stack([outward, np.cross(down, outward), down], axis=1)
    pose[:3, 3] = mug.wall_radius * outward - (mug.height - depth + TIP) * down
    return pose


def hanging_pose(mug: MugShape, hanger: HangerShape) -> Pose:
    """T_hanger_mug of a mug that hangs on the arm by its handle, mouth to the side.

    The arm goes through the handle at right angles; the handle's inside rests on it.

    Raises:
        DemoError: The arm does not fit between the handle and the wall.
    """
    rest = mug.handle_rest(HANG_TILT, mug.handle_radius + hanger.arm_radius + HANG_GAP)
    if rest[0] - hanger.arm_radius <= mug.radius:
        raise DemoError(
            f"an arm of radius {hanger.arm_radius} m does not fit into the handle of {mug}: "
            "make the arm thinner or handle_reach larger."
        )
    along = hanger.arm_direction
    up = np.array([0.0, 0.0, 1.0]) - along[2] * along
    up /= np.linalg.norm(up)
    aside = np.cross(along, up)
    sine, cosine = np.sin(HANG_TILT), np.cos(HANG_TILT)
    pose = np.eye(4)
    pose[:3, 0] = sine * up + cosine * aside
    pose[:3, 1] = along
    pose[:3, 2] = cosine * up - sine * aside
    pose[:3, 3] = hanger.arm_point(HANG_ALONG * hanger.arm_length) - pose[:3, :3] @ rest
    return pose


def _distance_to_segment(
    point: Float[np.ndarray, "2"], start: Float[np.ndarray, "2"], end: Float[np.ndarray, "2"]
) -> float:
    along = end - start
    share = np.clip((point - start) @ along / (along @ along), 0.0, 1.0)
    return float(np.linalg.norm(point - start - share * along))
