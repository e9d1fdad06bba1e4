"""A geometric judge of pick and place poses: is the gripper on the rim, is the handle on the arm?

It measures shapes fitted to the raw clouds (`shapes.py`) and knows nothing of any model. A verdict
is a list of measures, each with the range it must be in, so that a failure says why.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from edf_mug.cylinders import Array, Cylinder
from edf_mug.hand import T_gripper_tips
from edf_mug.shapes import (
    Hanger,
    Mug,
    Table,
    find_hanger,
    find_mug,
    find_table,
)
from handful.clouds import PointCloud
from handful.demos import Gripper

MAX_TILT = 25.0
"""Degrees between the approach and the mug's axis."""

DEPTH = (0.0, 0.06)
"""How far the finger tips are below the rim, metres."""

MAX_SLANT = 40.0
"""Degrees between the line through the finger tips and the mug's radius where that line meets the
middle of the wall: beyond it, closing fingers slip along the wall."""

MAX_STRUCK = 0.02
"""Share of the volume of a finger that has a point of the mug in it."""

MAX_BETWEEN = 0.5
"""Surface of the handle between the fingers, square centimetres: they must close on the wall."""

FINGER = (0.003, 0.010, 0.010, 0.045)
"""A finger, metres: how far beyond half of the opening it begins, its thickness along the opening,
half of its width across it, and its length back from the tip."""

MAX_LEAN = 60.0
"""Degrees between the arm and the normal of the handle's plane."""

TIP_SHORT = 0.012
"""How far the arm's tip may be short of the handle's middle plane, metres. The demonstrators let
the mug fall onto the arm: in half of their poses the tip has just entered the handle, a band of
about 15 mm, and is up to 8 mm short of the plane in its middle."""

GRAZE = 0.003
"""How deep things may seem to be in each other, metres: fits and clouds are not exact."""

MAX_OVERLAP = 1.0
"""Surface of the grasp cloud that is deeper than this inside the hanger, square centimetres."""

MAX_SUNK = 0.005
"""How deep the mug or the gripper may seem to be in the table, metres."""


@dataclass(frozen=True)
class Measure:
    """One thing that was measured, and the range it must be in, ends included."""

    name: str
    value: float
    low: float
    high: float

    @property
    def ok(self) -> bool:
        """Whether it is in its range; NaN is not."""
        return bool(self.low <= self.value <= self.high)

    def __str__(self) -> str:
        return f"{self.name} {self.value:.3g} (need {self.low:g} to {self.high:g})"


@dataclass(frozen=True)
class Verdict:
    """What the judge says of one pose."""

    measures: tuple[Measure, ...]

    @property
    def ok(self) -> bool:
        """Whether every measure is in its range."""
        return all(measure.ok for measure in self.measures)

    @property
    def reasons(self) -> tuple[str, ...]:
        """What is wrong, in words; empty when nothing is."""
        return tuple(str(measure) for measure in self.measures if not measure.ok)


_NOT_A_POSE = Verdict((Measure("pose", float("nan"), -np.inf, np.inf),))


def judge_pick(scene: PointCloud, T_scene_gripper: Array, gripper: Gripper) -> Verdict:
    """Whether an open gripper is astride the rim of the red mug of a scene.

    Args:
        scene: The scene cloud.
        T_scene_gripper: The pose [4, 4].
        gripper: Where its finger tips are.

    Raises:
        FitError: The scene has no mug.
    """
    return judge_grip(find_mug(scene), T_scene_gripper, gripper)


def judge_grip(mug: Mug, T_scene_gripper: Array, gripper: Gripper) -> Verdict:
    """`judge_pick` with the mug at hand."""
    T_scene_gripper = np.asarray(T_scene_gripper, dtype=np.float64)
    if not np.isfinite(T_scene_gripper).all():
        return _NOT_A_POSE
    T_scene_tips = T_scene_gripper @ T_gripper_tips(gripper)
    along, approach, middle = T_scene_tips[:3, 0], T_scene_tips[:3, 2], T_scene_tips[:3, 3]
    tips = middle + np.array([[-0.5], [0.5]]) * gripper.opening * along
    depth, (near, far) = -mug.wall.along(tips), np.sort(mug.wall.distance(tips))
    tilt = _degrees(-approach @ mug.axis)
    struck = _struck(mug, T_scene_tips, gripper.opening)
    between = _between(mug, T_scene_tips, gripper.opening)
    widest = mug.inner_radius + gripper.opening
    return Verdict(
        (
            Measure("approach off the mug's axis, degrees", tilt, 0, MAX_TILT),
            Measure("inner finger from the axis", float(near), 0, mug.inner_radius),
            Measure("outer finger from the axis", float(far), mug.outer_radius, widest),
            Measure("shallower finger below the rim", float(depth.min()), *DEPTH),
            Measure("deeper finger below the rim", float(depth.max()), *DEPTH),
            Measure("fingers off the radius, degrees", _slant(mug, tips), 0, MAX_SLANT),
            Measure("share of a finger in the mug", struck, 0, MAX_STRUCK),
            Measure("handle between the fingers, cm2", between, 0, MAX_BETWEEN),
        )
    )


def judge_place(scene: PointCloud, grasp: PointCloud, T_scene_gripper: Array) -> Verdict:
    """Whether the held mug has its handle over the arm of the hanger.

    Args:
        scene: The scene cloud, with a green hanger and a table.
        grasp: The grasp cloud, with a red mug, in the gripper frame.
        T_scene_gripper: The pose [4, 4].

    Raises:
        FitError: There is no hanger, no table, or no mug with a handle.
    """
    return judge_hanging(
        find_hanger(scene), find_table(scene), find_mug(grasp), grasp, T_scene_gripper
    )


def judge_hanging(
    hanger: Hanger, table: Table, mug: Mug, grasp: PointCloud, T_scene_gripper: Array
) -> Verdict:
    """`judge_place` with everything at hand; `mug` and `grasp` are in the gripper frame."""
    T_scene_gripper = np.asarray(T_scene_gripper, dtype=np.float64)
    if not np.isfinite(T_scene_gripper).all():
        return _NOT_A_POSE
    held = grasp.points.astype(np.float64) @ T_scene_gripper[:3, :3].T + T_scene_gripper[:3, 3]
    inside = _arm_in_body(mug, hanger, T_scene_gripper)
    return Verdict(
        (
            *_threading(mug, hanger, T_scene_gripper),
            Measure("arm in the mug's body", inside, 0, GRAZE),
            Measure("grasp in the hanger, cm2", _overlap(hanger, held), 0, MAX_OVERLAP),
            Measure("height above the table", float(table.height(held).min()), -MAX_SUNK, np.inf),
        )
    )


# --- picking -----------------------------------------------------------------------------------


def _slant(mug: Mug, tips: Array) -> float:
    """Degrees between the line from tip to tip and the radius, in the middle of the wall."""
    line = tips[0] + np.linspace(0.0, 1.0, 201)[:, None] * (tips[1] - tips[0])
    wall = (mug.inner_radius + mug.outer_radius) / 2
    meets = int(np.abs(mug.wall.distance(line) - wall).argmin())
    outward, along = mug.wall.across(line[meets : meets + 1])[0], tips[1] - tips[0]
    length = np.linalg.norm(outward) * np.linalg.norm(along)
    return _degrees(abs(along @ outward) / length) if length > 0 else 90.0


def _struck(mug: Mug, T_scene_tips: Array, opening: float) -> float:
    """The share of little cubes of the fuller finger with a point of the mug near their middle."""
    gap, thick, half, long = FINGER
    side = 0.0025
    x, y, z = np.meshgrid(
        opening / 2 + gap + np.arange(side / 2, thick, side),
        np.arange(side / 2 - half, half, side),
        -np.arange(side / 2, long, side),
        indexing="ij",
    )
    finger = np.stack([x, y, z], axis=-1).reshape(-1, 3)
    tree = cKDTree(mug.points)
    shares = []
    for cubes in (finger, finger * [-1.0, 1.0, 1.0]):
        where = cubes @ T_scene_tips[:3, :3].T + T_scene_tips[:3, 3]
        near, _ = tree.query(where, distance_upper_bound=side)
        shares.append(np.isfinite(near).mean())
    return float(max(shares))


def _between(mug: Mug, T_scene_tips: Array, opening: float) -> float:
    """Surface of the handle where the closing fingers would sweep, square centimetres."""
    _, _, half, long = FINGER
    beyond = mug.wall.distance(mug.points) > mug.outer_radius + 0.006
    x, y, z = ((mug.points[beyond] - T_scene_tips[:3, 3]) @ T_scene_tips[:3, :3]).T
    swept = (np.abs(x) < opening / 2) & (np.abs(y) < half) & (z < 0.0) & (z > -long)
    return float(swept.sum() * _area_per_point(mug.points) * 1e4)


# --- placing -----------------------------------------------------------------------------------


def _threading(mug: Mug, hanger: Hanger, T_scene_gripper: Array) -> tuple[Measure, ...]:
    """Where the arm's axis meets the plane of the handle, and whether that is in the opening."""
    clearance = beyond = below = lean = float("nan")
    if mug.handle is not None:
        T_gripper_scene = np.linalg.inv(T_scene_gripper)
        start = T_gripper_scene[:3, :3] @ hanger.arm.point + T_gripper_scene[:3, 3]
        axis = T_gripper_scene[:3, :3] @ hanger.arm.axis
        slope = axis @ mug.handle.normal
        lean = _degrees(abs(slope))
        if abs(slope) > 1e-3:
            below = float((mug.handle.center - start) @ mug.handle.normal / slope)
            beyond = hanger.length - below
            clearance = mug.handle.clearance(start + below * axis)
    return (
        Measure(
            "arm's axis inside the edge of the opening",
            clearance,
            max(0.0, hanger.arm.radius - GRAZE),
            np.inf,
        ),
        Measure("arm's tip beyond the handle", beyond, -TIP_SHORT, np.inf),
        Measure("handle above the arm's foot", below, -GRAZE, np.inf),
        Measure("arm off the opening's normal, degrees", lean, 0, MAX_LEAN),
    )


def _arm_in_body(mug: Mug, hanger: Hanger, T_scene_gripper: Array) -> float:
    """How deep the arm's or the post's axis is in the mug, wall and hollow alike, metres."""
    rods = [_rod(hanger.arm, hanger.length), _rod(hanger.post, hanger.height)]
    T_gripper_scene = np.linalg.inv(T_scene_gripper)
    line = np.concatenate(rods) @ T_gripper_scene[:3, :3].T + T_gripper_scene[:3, 3]
    along = mug.wall.along(line)
    inside = np.stack([mug.outer_radius - mug.wall.distance(line), -along, along + mug.height])
    return float(max(0.0, inside.min(axis=0).max()))


def _rod(rod: Cylinder, length: float) -> Array:
    return rod.point + np.linspace(0.0, length, 200)[:, None] * rod.axis


def _overlap(hanger: Hanger, held: Array) -> float:
    """Surface of the held things that is inside the hanger, square centimetres."""
    inside = np.zeros(len(held), dtype=bool)
    for rod, length in ((hanger.arm, hanger.length), (hanger.post, hanger.height)):
        along = rod.along(held)
        inside |= (rod.distance(held) < rod.radius - GRAZE) & (along > 0) & (along < length)
    return float(inside.sum() * _area_per_point(held) * 1e4)


def _area_per_point(points: Array) -> float:
    """Square metres, from the distances to the sixth neighbour."""
    some = points[:: max(1, len(points) // 2000)]
    sixth = cKDTree(points).query(some, 7)[0][:, 6]
    return float(np.pi * np.median(sixth) ** 2 / 6)


def _degrees(cosine: float) -> float:
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))
