"""Where pictures of gripper poses are taken from."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from handful.clouds import Intrinsics, PointCloud
from handful.demos import Gripper
from handful.errors import OptionError
from handful.render import Camera, best_view, framed, orbit
from handful.viz._hand import hand_length, hand_points
from handful.viz._interest import (
    above_table,
    across,
    closeness,
    columns,
    near,
    thinned,
    weighted_mean,
)

PANEL = (496, 372)
"""Width and height of one picture, pixels."""

_FIELD_OF_VIEW = 0.55
"""Vertical, radians; narrow, so that near things do not look too large."""


def view_of_scene(
    scene: PointCloud,
    poses: Float[np.ndarray, "poses 4 4"] | None = None,
    gripper: Gripper | None = None,
    size: tuple[int, int] = PANEL,
) -> Camera:
    """A camera that sees the whole scene, things in it and grippers hidden as little as possible.

    Args:
        scene: In the scene frame.
        poses: T_scene_gripper of grippers that will be drawn, the most important first.
        gripper: The gripper of the poses.
        size: Width and height of the picture, pixels.
    """
    points = thinned(scene.points)
    low, high = np.percentile(points, [1.0, 99.0], axis=0)
    inside = ((points >= low) & (points <= high)).all(axis=1)
    shown = [points[inside] if inside.any() else points]
    groups = [above_table(shown[0]).astype(np.float64)]
    if poses is None or not len(poses):
        return _widest(shown[0], groups, _cameras(shown[0], size, (0.5, 0.75)))
    if gripper is None:
        raise OptionError(f"view_of_scene got {len(poses)} poses and no gripper: give it too.")
    hand = hand_points(gripper)
    shown += [moved(hand, poses[0]), *(moved(hand, pose)[::4] for pose in poses[1:])]
    groups += [np.ones(len(shown[1])), np.ones(sum(map(len, shown[2:])))]
    everything = np.concatenate(shown)
    opening = (poses[0] @ gripper.T_gripper_contact)[:3, 0]
    cameras = across(_cameras(everything, size, (0.5, 0.75)), opening, 0.7)
    return _widest(everything, groups, cameras)


def view_of_pose(
    scene: PointCloud,
    pose: Float[np.ndarray, "4 4"],
    gripper: Gripper,
    grasp: PointCloud | None = None,
    *,
    with_hand: bool = True,
    size: tuple[int, int] = PANEL,
) -> Camera:
    """A camera close to a gripper pose, which sees where gripper and scene meet.

    Args:
        scene: In the scene frame.
        pose: T_scene_gripper.
        gripper: What is at the pose.
        grasp: What it holds, in the gripper frame.
        with_hand: Whether the gripper should fit into the picture, or only what it is at.
        size: Width and height of the picture, pixels.
    """
    hand = moved(hand_points(gripper), pose)
    held = np.zeros((0, 3)) if grasp is None else moved(thinned(grasp.points), pose)
    carried = np.concatenate([hand, held])
    T_scene_contact, length = pose @ gripper.T_gripper_contact, hand_length(gripper)
    contact = T_scene_contact[:3, 3]
    around = near(scene.points, contact, 2.5 * length)
    things = above_table(around)
    meeting = things * closeness(around, carried if grasp is None else held, 0.15 * length)
    focus = contact if grasp is None else weighted_mean(around, meeting, contact)
    things &= np.linalg.norm(around - focus, axis=1) < 1.1 * length
    # Open fingers show best side by side; a hand that holds something, from across its approach.
    axis = T_scene_contact[:3, 0] if grasp is None else T_scene_contact[:3, 2]
    shown = np.concatenate([around[things], carried])
    cameras = across(_cameras(shown, size, (0.45, 0.7)), axis, 0.6)
    interest = columns([things.astype(np.float64), np.ones(len(hand)), np.ones(len(held))])
    touching = np.concatenate([meeting, np.zeros(len(carried))])
    everything = np.concatenate([around, carried])
    camera = best_view(everything, np.column_stack([interest, touching]), cameras)
    if with_hand:
        return framed(camera, shown)
    ring = focus + 0.4 * length * np.concatenate([np.eye(3), -np.eye(3)])
    return framed(camera, np.concatenate([around[things], ring]), margin=0.1)


def moved(
    points: Float[np.ndarray, "points 3"], pose: Float[np.ndarray, "4 4"]
) -> Float[np.ndarray, "points 3"]:
    """Points of the gripper frame in the scene frame, by T_scene_gripper."""
    return points @ pose[:3, :3].T + pose[:3, 3]


def _widest(
    points: Float[np.ndarray, "points 3"],
    groups: list[Float[np.ndarray, "_"]],
    cameras: list[Camera],
) -> Camera:
    """The camera that shows most of each group, moved to where all points fill its image."""
    return framed(best_view(points, columns(groups), cameras), points)


def _cameras(
    points: Float[np.ndarray, "points 3"], size: tuple[int, int], elevations: tuple[float, ...]
) -> list[Camera]:
    """Cameras around points."""
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    radius = max(float(np.linalg.norm(points - middle, axis=1).max()), 0.01)
    return orbit(middle, radius, Intrinsics.from_field_of_view(*size, _FIELD_OF_VIEW), elevations)
