"""Where pictures of gripper poses are taken from."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial import cKDTree

from handful.clouds import Intrinsics, PointCloud
from handful.demos import Gripper
from handful.render import Camera, ColoredMesh, best_view, framed, gripper_mesh, orbit

PANEL = (496, 372)
"""Width and height of one picture, pixels."""

_FIELD_OF_VIEW = 0.55
"""Vertical, radians; narrow, so that near things do not look too large."""

_TRIAL_POINTS = 3000
"""Points of a cloud that are enough to choose a view."""


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
        gripper: Their shape.
        size: Width and height of the picture, pixels.
    """
    points = _thinned(scene.points)
    low, high = np.percentile(points, [1.0, 99.0], axis=0)
    inside = ((points >= low) & (points <= high)).all(axis=1)
    shown = [points[inside] if inside.any() else points]
    groups = [_above_table(shown[0]).astype(np.float64)]
    if poses is not None and len(poses):
        hand = _surface(gripper or Gripper())
        shown += [_moved(hand, poses[0]), *(_moved(hand, pose)[::4] for pose in poses[1:])]
        groups += [np.ones(len(shown[1])), np.ones(sum(map(len, shown[2:])))]
    everything = np.concatenate(shown)
    axis = None if poses is None or gripper is None else _finger_axis(poses[0], gripper)
    cameras = _across(_cameras(everything, size, (0.5, 0.75)), axis, 0.7)
    return framed(best_view(everything, _columns(groups), cameras), everything)


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
        gripper: Its shape.
        grasp: What it holds, in the gripper frame.
        with_hand: Whether the gripper should fit into the picture, or only what it is at.
        size: Width and height of the picture, pixels.
    """
    hand = _moved(_surface(gripper), pose)
    held = np.zeros((0, 3)) if grasp is None else _moved(_thinned(grasp.points), pose)
    carried = np.concatenate([hand, held])
    tip = pose[:3, 3] + gripper.tip * pose[:3, 2]
    around = _near(scene.points, tip, 2.5 * gripper.tip)
    things = _above_table(around)
    meeting = things * _closeness(around, carried if grasp is None else held, 0.15 * gripper.tip)
    focus = tip if grasp is None else _middle(around, meeting, tip)
    things &= np.linalg.norm(around - focus, axis=1) < 1.1 * gripper.tip
    # Open fingers show best side by side; a hand that holds something, from across its approach.
    axis = _finger_axis(pose, gripper) if grasp is None else pose[:3, 2]
    shown = np.concatenate([around[things], carried])
    cameras = _across(_cameras(shown, size, (0.45, 0.7)), axis, 0.6)
    interest = _columns([things.astype(np.float64), np.ones(len(hand)), np.ones(len(held))])
    touching = np.concatenate([meeting, np.zeros(len(carried))])
    everything = np.concatenate([around, carried])
    camera = best_view(everything, np.column_stack([interest, touching]), cameras)
    if with_hand:
        return framed(camera, shown)
    ring = focus + 0.4 * gripper.tip * np.concatenate([np.eye(3), -np.eye(3)])
    return framed(camera, np.concatenate([around[things], ring]), margin=0.1)


def _middle(
    points: Float[np.ndarray, "points 3"],
    weights: Float[np.ndarray, "points"],
    otherwise: Float[np.ndarray, "3"],
) -> Float[np.ndarray, "3"]:
    """The weighted mean, if there is any weight."""
    return weights @ points / weights.sum() if weights.sum() > 1e-6 else otherwise


def _surface(gripper: Gripper) -> Float[np.ndarray, "points 3"]:
    """Points on a gripper, the same ones each time."""
    mesh: ColoredMesh = gripper_mesh(gripper.tip, gripper.opening, gripper.axis)
    share = np.random.default_rng(0).dirichlet(np.ones(3), size=(len(mesh.faces), 8))
    return (share @ mesh.triangles).reshape(-1, 3)


def _finger_axis(pose: Float[np.ndarray, "4 4"], gripper: Gripper) -> Float[np.ndarray, "3"]:
    return pose[:3, "xy".index(gripper.axis)]


def _moved(
    points: Float[np.ndarray, "points 3"], pose: Float[np.ndarray, "4 4"]
) -> Float[np.ndarray, "points 3"]:
    return points @ pose[:3, :3].T + pose[:3, 3]


def _thinned(points: Float[np.ndarray, "points 3"]) -> Float[np.ndarray, "some 3"]:
    return points[:: -(-len(points) // _TRIAL_POINTS)].astype(np.float64)


def _near(
    points: Float[np.ndarray, "points 3"], center: Float[np.ndarray, "3"], radius: float
) -> Float[np.ndarray, "some 3"]:
    near = np.linalg.norm(points - center, axis=1) < radius
    return _thinned(points[near]) if near.any() else np.zeros((0, 3))


def _above_table(points: Float[np.ndarray, "points 3"]) -> Bool[np.ndarray, "points"]:
    """Which points are not among the lowest twentieth of the height."""
    if not len(points):
        return np.zeros(0, dtype=bool)
    low, high = points[:, 2].min(), points[:, 2].max()
    return points[:, 2] > low + 0.05 * (high - low)


def _closeness(
    points: Float[np.ndarray, "points 3"], others: Float[np.ndarray, "others 3"], length: float
) -> Float[np.ndarray, "points"]:
    """How close each point is to others: 1 where they touch, falling over `length` to 0."""
    gap = cKDTree(others).query(points)[0] if len(points) else np.zeros(0)
    return np.exp(-((gap / length) ** 2))


def _cameras(
    points: Float[np.ndarray, "points 3"], size: tuple[int, int], elevations: tuple[float, ...]
) -> list[Camera]:
    """Cameras around points."""
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    radius = max(float(np.linalg.norm(points - middle, axis=1).max()), 0.01)
    return orbit(middle, radius, Intrinsics.from_field_of_view(*size, _FIELD_OF_VIEW), elevations)


def _across(
    cameras: list[Camera], axis: Float[np.ndarray, "3"] | None, most: float
) -> list[Camera]:
    """The cameras that look more across an axis than along it."""
    if axis is None:
        return cameras
    along = [abs(float(camera.T_scene_camera[:3, 2] @ axis)) for camera in cameras]
    limit = max(most, min(along))
    return [camera for camera, share in zip(cameras, along, strict=True) if share <= limit]


def _columns(groups: list[Float[np.ndarray, "_"]]) -> Float[np.ndarray, "points groups"]:
    """One column for each group of consecutive points, zero outside the group."""
    columns = np.zeros((sum(map(len, groups)), len(groups)))
    start = 0
    for column, values in enumerate(groups):
        columns[start : start + len(values), column] = values
        start += len(values)
    return columns
