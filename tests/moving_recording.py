"""A peg that is taken and put into a box, as it happens over time: for bags and data sets."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.spatial.transform import Rotation, Slerp

from handful.clouds import (
    Intrinsics,
    PointCloud,
    RgbdView,
    cloud_from_rgbd,
    without_flying_pixels,
)
from handful.recordings import Sight
from handful.recordings.example import GRIPPER as GRIPPER
from handful.recordings.example import random_layout
from handful.recordings.example._peg import box_with_hole_mesh, hand_mesh, peg_mesh, table_mesh
from handful.render import Camera, look_at, render_rgbd

RATE = 5.0
"""Poses and signals a second; images come every fifth."""
OPEN, CLOSED = 0.09, 0.054
VIEW = Intrinsics(150.0, 150.0, 79.5, 59.5, 160, 120)
CAMERA = look_at((1.08, 0.22, 0.52), (0.45, 0.0, 0.06), VIEW)
LAYOUT = random_layout(np.random.default_rng([0, 0]))


@dataclass(frozen=True, eq=False)
class Moment:
    """What is true at one time.

    Attributes:
        time: Seconds.
        T_robot_gripper: Where the gripper is.
        width: Between its fingers, metres.
        view: What the camera sees, or None between two images.
    """

    time: float
    T_robot_gripper: np.ndarray
    width: float
    view: object


def _waypoints() -> tuple[np.ndarray, np.ndarray]:
    home = LAYOUT.T_robot_grasp.copy()
    home[:3, 3] = 0.40, 0.12, 0.62
    shown = LAYOUT.T_robot_grasp.copy()
    shown[:3, 3] = 0.42, 0.0, 0.50
    turned = shown.copy()
    turned[:3, :3] = turned[:3, :3] @ Rotation.from_euler("z", 1.5).as_matrix()
    take, leave = LAYOUT.T_robot_grasp, LAYOUT.T_robot_release
    poses = [home, home, take, take, shown, turned, leave, leave, home]
    return np.array([0.0, 1.0, 3.0, 4.0, 6.0, 8.0, 10.0, 11.0, 13.0]), np.array(poses)


TAKEN, RELEASED = 3.4, 10.4
"""When the fingers have closed on the peg, and when they begin to open."""


@lru_cache
def moments() -> tuple[Moment, ...]:
    """All that happens."""
    times, poses = _waypoints()
    turn = Slerp(times, Rotation.from_matrix(poses[:, :3, :3]))
    found = []
    for index in range(int(13 * RATE) + 1):
        time = index / RATE
        hand = np.eye(4)
        hand[:3, :3] = turn(time).as_matrix()
        hand[:3, 3] = [np.interp(time, times, poses[:, axis, 3]) for axis in range(3)]
        width = float(np.interp(time, [3.2, TAKEN, RELEASED, 10.6], [OPEN, CLOSED, CLOSED, OPEN]))
        view = _view(hand, width, time) if index % 5 == 0 else None
        found.append(Moment(time, hand, width, view))
    return tuple(found)


def _view(hand: np.ndarray, width: float, time: float):
    peg = LAYOUT.T_robot_peg
    if time >= TAKEN:
        carried = hand if time <= RELEASED else LAYOUT.T_robot_release
        peg = carried @ np.linalg.inv(LAYOUT.T_peg_gripper)
    meshes = [table_mesh(), box_with_hole_mesh().transformed(LAYOUT.T_robot_box)]
    meshes += [peg_mesh().transformed(peg), hand_mesh(width).transformed(hand)]
    return render_rgbd(meshes, Camera(VIEW, CAMERA.T_scene_camera))


def sight_at(
    time: float, stored: Callable[[np.ndarray], np.ndarray], flying: bool = False
) -> Sight:
    """What was seen at a time, with depth as it is stored; flying pixels are left in on request."""
    (moment,) = [one for one in moments() if abs(one.time - time) < 1e-9]
    seen = moment.view
    view = RgbdView(stored(seen.metres), seen.color, seen.intrinsics, seen.T_scene_camera)
    cloud = cloud_from_rgbd(view if flying else without_flying_pixels(view))
    return Sight(cloud, moment.T_robot_gripper)


def assert_equal_clouds(one: PointCloud, other: PointCloud) -> None:
    """The same points in the same order, to single precision."""
    np.testing.assert_allclose(one.points, other.points, atol=2e-6)
    np.testing.assert_allclose(one.require_colors(), other.require_colors(), atol=1e-6)
