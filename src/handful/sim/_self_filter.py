"""The robot's own points: dropped from its pictures by its known shape and joint angles.

What is used is what a real robot knows: the shapes of its links (here capsules, for a real one its
description), its joint angles, its gripper with the distance between the fingers, and the cloud of
what it holds, seen before and moved by the pose of the hand. What the simulator knows of the
picture is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from handful.clouds import Box, PointCloud, RgbdView
from handful.demos import Gripper
from handful.sim._arm import arm_capsules
from handful.sim._ik import Joints, link_poses
from handful.sim.objects import Pose

BODY_MARGIN = 0.02
"""Metres: points nearer to the robot than this are its own. Three standard deviations of the
noisiest named sensor at 1.2 m, the farthest that the arm is from a camera, are 16 mm."""
SIGHT_MARGIN = 0.01
"""Metres: points are dropped, too, if the line of sight to them passes the robot nearer than this.
These are the flying pixels at its outline, which hang anywhere between the robot and what is behind
it. They are at most two pixels off the outline: 9 mm at a distance of 1 m."""
_HAND_MARGIN = 0.006
"""Metres: points of a grasp cloud that are nearer to the hand than this are taken as the hand's."""
_FACES = 100
"""Faces of the polytope around what is held."""
_FEWEST = 20
"""Points of what is held, fewer of which say nothing about its shape."""

Points = Float[np.ndarray, "points 3"]
Flags = Bool[np.ndarray, "points"]


@runtime_checkable
class Shape(Protocol):
    """A convex part of the robot, scene frame."""

    def near(self, points: Points, margin: float) -> Flags:
        """Which points are in the part or at most `margin` metres outside."""
        ...

    def hides(self, eye: Float[np.ndarray, "3"], points: Points, margin: float) -> Flags:
        """To which points the straight line from `eye` passes as near as that."""
        ...


@dataclass(frozen=True, eq=False)
class Capsule:
    """All points within `radius` metres of the line from `start` to `end`, which differ."""

    start: Float[np.ndarray, "3"]
    end: Float[np.ndarray, "3"]
    radius: float

    def near(self, points: Points, margin: float) -> Flags:
        """See `Shape`."""
        axis = self.end - self.start
        share = np.clip((points - self.start) @ axis / (axis @ axis), 0.0, 1.0)
        away = np.linalg.norm(points - self.start - share[:, None] * axis, axis=1)
        return away <= self.radius + margin

    def hides(self, eye: Float[np.ndarray, "3"], points: Points, margin: float) -> Flags:
        """See `Shape`: the least distance between two line segments."""
        sight, axis, between = points - eye, self.end - self.start, eye - self.start
        aa, bb = (sight**2).sum(axis=1), axis @ axis
        ab, ac, bc = sight @ axis, sight @ between, axis @ between
        square = aa * bb - ab**2
        # Of parallel lines all points are alike: begin at the eye.
        along = np.where(square > 1e-12, (ab * bc - ac * bb) / np.maximum(square, 1e-12), 0.0)
        share = np.clip((ab * np.clip(along, 0.0, 1.0) + bc) / bb, 0.0, 1.0)
        along = np.clip((ab * share - ac) / np.maximum(aa, 1e-12), 0.0, 1.0)
        gap = between + along[:, None] * sight - share[:, None] * axis
        return np.linalg.norm(gap, axis=1) <= self.radius + margin


@dataclass(frozen=True, eq=False)
class Polytope:
    """All points x with normals @ x <= offsets; the normals are unit vectors."""

    normals: Float[np.ndarray, "faces 3"]
    offsets: Float[np.ndarray, "faces"]

    def near(self, points: Points, margin: float) -> Flags:
        """See `Shape`; every face is moved outwards by the margin."""
        return (points @ self.normals.T <= self.offsets + margin).all(axis=1)

    def hides(self, eye: Float[np.ndarray, "3"], points: Points, margin: float) -> Flags:
        """See `Shape`: every face cuts off a part of the line."""
        slope = (points - eye) @ self.normals.T
        room = self.offsets + margin - self.normals @ eye
        level = np.abs(slope) < 1e-12
        cut = room / np.where(level, 1.0, slope)
        first = np.where(~level & (slope < 0), cut, 0.0).max(axis=1)
        last = np.where(~level & (slope > 0), cut, 1.0).min(axis=1)
        return (np.maximum(first, 0.0) <= np.minimum(last, 1.0)) & ~(level & (room < 0)).any(axis=1)

    def moved(self, pose: Pose) -> Polytope:
        """In another frame: `pose` maps coordinates of the present frame to it."""
        normals = self.normals @ pose[:3, :3].T
        return Polytope(normals, self.offsets + normals @ pose[:3, 3])


def robot_shapes(
    joints: Joints, gripper: Gripper, gap: float, grasp: PointCloud | None = None
) -> list[Shape]:
    """The robot at its joint angles: links, hand, and what it holds; scene frame.

    Args:
        joints: Angles of the arm, radians.
        gripper: The hand; boxes describe it.
        gap: Distance between the fingers, metres.
        grasp: Grasp cloud of what is held, gripper frame; None for an empty hand.
    """
    *links, T_scene_gripper = link_poses(joints)
    shapes: list[Shape] = []
    for capsule in arm_capsules():
        T_scene_link = links[capsule.link]
        ends = np.array([capsule.start, capsule.end]) @ T_scene_link[:3, :3].T + T_scene_link[:3, 3]
        shapes.append(Capsule(ends[0], ends[1], capsule.radius))
    hand = gripper.with_width(gap)
    assert hand.shape is not None
    shapes += [_box(box.surface()[0]).moved(T_scene_gripper) for box in hand.shape.boxes]
    if grasp is not None:
        points = grasp.points.astype(np.float64)
        held = points[~hand.shape.contains(points, _HAND_MARGIN)]
        if len(held) >= _FEWEST:
            shapes.append(_around(held, _all_ways()).moved(T_scene_gripper))
    return shapes


def without_robot(view: RgbdView, shapes: Sequence[Shape], workspace: Box) -> RgbdView:
    """A picture without the pixels that show the robot.

    A pixel is dropped if its point is within `BODY_MARGIN` of a shape, or the line of sight to it
    passes a shape within `SIGHT_MARGIN`. What the robot hides stays unseen.

    Args:
        view: Depth in metres.
        shapes: Of the robot, scene frame.
        workspace: Pixels outside of it are left as they are.
    """
    depth = np.asarray(view.depth, dtype=np.float64)
    row, column = np.nonzero(depth > 0)
    camera, T_scene_camera = view.intrinsics, np.asarray(view.T_scene_camera, dtype=np.float64)
    ray = np.stack(
        [(column - camera.cx) / camera.fx, (row - camera.cy) / camera.fy, np.ones(len(row))], axis=1
    )
    eye = T_scene_camera[:3, 3]
    points = (ray * depth[row, column, None]) @ T_scene_camera[:3, :3].T + eye
    asked = workspace.contains(points)
    row, column, points = row[asked], column[asked], points[asked]
    own = np.zeros(len(points), dtype=bool)
    for shape in shapes:
        own |= shape.near(points, BODY_MARGIN) | shape.hides(eye, points, SIGHT_MARGIN)
    kept = depth.copy()
    kept[row[own], column[own]] = 0.0
    return replace(view, depth=kept)


def _around(points: Points, normals: Float[np.ndarray, "faces 3"]) -> Polytope:
    """The smallest polytope with such faces around points."""
    return Polytope(normals, (points @ normals.T).max(axis=0))


def _box(corners: Float[np.ndarray, "8 3"]) -> Polytope:
    """A box by its corners, numbered with z fastest and x slowest."""
    edges = np.stack([corners[number] - corners[0] for number in (4, 2, 1)])
    axes = edges / np.linalg.norm(edges, axis=1, keepdims=True)
    return _around(corners, np.concatenate([axes, -axes]))


@lru_cache(maxsize=1)
def _all_ways() -> Float[np.ndarray, "faces 3"]:
    """Unit vectors, spread evenly (a Fibonacci lattice).

    A polytope with these faces is the convex hull of what it is around, but for a few hundredths
    of its size.
    """
    number = np.arange(_FACES) + 0.5
    height, turn = 1.0 - 2.0 * number / _FACES, np.pi * (1.0 + np.sqrt(5.0)) * number
    flat = np.sqrt(1.0 - height**2)
    return np.stack([flat * np.cos(turn), flat * np.sin(turn), height], axis=1)
