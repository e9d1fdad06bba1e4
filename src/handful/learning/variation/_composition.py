"""Composed scenes: the object of a demonstration, put somewhere else in another way.

A demonstration tells which points are the object (`Example`). The object can then be taken with
its grasp and put anywhere: lying, on a block, in the place of something else. The pose goes along,
and is exact. Nothing here knows what the object is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.transform import Rotation

from handful.clouds import PointCloud, concatenate
from handful.errors import OptionError
from handful.learning.variation._augmentation import turn_colors
from handful.learning.variation._example import Example
from handful.policy import backed_off

_SPACING = 0.006
"""Distance of neighbouring points of a block, metres: about that of prepared scenes."""
_TABLE = 0.008
"""Points at most this far above the support of the object are its support's, metres."""
_SPOTS = 8
"""Other places that are tried for an object."""
_TURNS, _TRIES = 4, 6
"""Orientations of one kind that are drawn, and places for each, until the hand is free."""
_FOOT = 0.7
"""Cosine: faces whose normals are nearer than this to downwards are the foot of an object."""
_BACKS, _DEPTH, _FEW, _HAND_REACH = (0.0, 0.03), 0.002, 3, 0.4
"""Metres before the pose where the hand is checked; metres that it may sink into things; points
that may be inside of it; metres around its frame that are looked at."""
_MARGIN = 0.02
"""Least free distance between an object in another place and what stands there, metres."""


@dataclass(frozen=True)
class Composition:
    """How often and how scenes are composed; lengths in metres.

    Attributes:
        probability: Share of the scenes that are composed, where object and rest are known.
        upright: Of these, the share in which the object stands as it did.
        lying: Of those that do not stand, the share that lie on another side of their convex hull,
            any way round. The others have any orientation.
        raised: Share in which it is on a block. It is put on one as well where the hand does not
            get at it otherwise.
        heights: Smallest and largest height of a block.
        floating: Share without a support: the table was cut away.
        elsewhere: Share in which it is in another place of the scene.
        recolored: Share in which the object gets colours of its own.
    """

    probability: float = 0.0
    upright: float = 0.35
    lying: float = 0.65
    raised: float = 0.35
    heights: tuple[float, float] = (0.02, 0.15)
    floating: float = 0.15
    elsewhere: float = 0.5
    recolored: float = 0.5

    def __post_init__(self) -> None:
        for name in (
            "probability", "upright", "lying", "raised", "floating", "elsewhere", "recolored"
        ):  # fmt: skip
            if not 0 <= getattr(self, name) <= 1:
                raise OptionError(f"composition {name} is {getattr(self, name)}: need 0 to 1.")
        if not 0 < self.heights[0] <= self.heights[1] < 1:
            raise OptionError(f"composition heights are {self.heights}: need metres in order.")

    def wanted(self, example: Example, rng: np.random.Generator) -> bool:
        """Whether a scene is to be composed this time."""
        return example.separated and rng.uniform() < self.probability

    def apply(self, example: Example, rng: np.random.Generator) -> Example:
        """The example with its object somewhere else, where the gripper can get at it.

        Its parts must be known. Whether it stands or lies is drawn once: what is thrown away below
        must not favour orientations that are easy to get at. Orientations of that kind and places
        are drawn until the hand goes through nothing there; if it always does, the object stays
        where it was.
        """
        thing, rest = example.thing, example.rest
        assert thing is not None
        assert rest is not None
        points = thing.points.astype(np.float64)
        floating = rng.uniform() < self.floating
        around = self._around(rest, example.up, example.level, floating)
        T, block = _standing(points, example.up, example.level), None
        kind = rng.uniform()
        for attempt in range(_TURNS * _TRIES):
            if attempt % _TRIES == 0:
                turn = self._turn(kind, points, example.up, rng)
            raised = attempt % _TRIES > 0 or rng.uniform() < self.raised
            moved, under = self._place(points, turn, raised, rest, example.up, example.level, rng)
            things = [part for part in (around, under) if part is not None]
            if _hand_is_free(moved @ example.step.targets[0], things, example, floating):
                T, block = moved, under
                break
        there = thing.transformed(T)
        if thing.has_colors and rng.uniform() < self.recolored:
            there = turn_colors(there, rng)
        scene = concatenate([part for part in (around, there, block) if part is not None])
        step = example.step.changed(scene, T @ example.step.targets)
        return replace(example, step=step, thing=there, rest=None)

    def _turn(
        self,
        kind: float,
        points: Float[np.ndarray, "points 3"],
        up: Float[np.ndarray, "3"],
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "3 3"]:
        """An orientation of the object; `kind` from 0 to 1 says whether it stands or lies."""
        if kind < self.upright:
            return np.eye(3)
        if kind < self.upright + (1.0 - self.upright) * self.lying:
            side = _some_side(points, up, rng)
            if side is not None:
                about = Rotation.from_rotvec(rng.uniform(-np.pi, np.pi) * up).as_matrix()
                return about @ _turning(side, -up)
        return Rotation.random(rng=rng).as_matrix()

    def _place(
        self,
        points: Float[np.ndarray, "points 3"],
        turn: Float[np.ndarray, "3 3"],
        raised: bool,
        rest: PointCloud,
        up: Float[np.ndarray, "3"],
        level: float,
        rng: np.random.Generator,
    ) -> tuple[Float[np.ndarray, "4 4"], PointCloud | None]:
        """A motion of the object to where it could lie or stand, and a block under it."""
        middle = points.mean(axis=0)
        turned = (points - middle) @ turn.T
        height = rng.uniform(*self.heights) if raised else 0.0
        radius = float(np.linalg.norm(turned - (turned @ up)[:, None] * up, axis=1).max())
        spot = middle
        if rng.uniform() < self.elsewhere:
            spot = self._spot(rest, up, level, radius, middle, rng)
        to = spot + (level + height - float((turned @ up).min()) - spot @ up) * up
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = turn, to - turn @ middle
        if height == 0:
            return T, None
        return T, _block(to, up, level, height, radius, rest.has_colors, rng)

    def _around(
        self, rest: PointCloud, up: Float[np.ndarray, "3"], level: float, floating: bool
    ) -> PointCloud | None:
        """The rest of the scene, or of it what stands on the table if that was cut away."""
        if not floating:
            return rest
        standing = rest.points @ up > level + _TABLE
        return rest.selected(standing) if standing.sum() >= 2 else None

    def _spot(
        self,
        rest: PointCloud,
        up: Float[np.ndarray, "3"],
        level: float,
        radius: float,
        otherwise: Float[np.ndarray, "3"],
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "3"]:
        """A place on the support with nothing else near it."""
        height = rest.points @ up - level
        standing = rest.points[height > _TABLE].astype(np.float64)
        flat = standing - (standing @ up)[:, None] * up
        (support,) = np.nonzero(np.abs(height) < _TABLE)
        for index in support[rng.integers(len(support), size=_SPOTS)] if len(support) else ():
            spot = rest.points[index].astype(np.float64)
            away = np.linalg.norm(flat - (spot - (spot @ up) * up), axis=1)
            if not len(away) or away.min() > radius + _MARGIN:
                return spot
        return otherwise


def _some_side(
    points: Float[np.ndarray, "points 3"], up: Float[np.ndarray, "3"], rng: np.random.Generator
) -> Float[np.ndarray, "3"] | None:
    """The outward normal of a face of the convex hull other than its foot, by area; or None."""
    try:
        hull = ConvexHull(points)
    except QhullError:  # all in one plane
        return None
    normals = hull.equations[:, :3]
    first, second, third = (points[hull.simplices[:, corner]] for corner in range(3))
    area = np.linalg.norm(np.cross(second - first, third - first), axis=1)
    area[normals @ up < -_FOOT] = 0.0
    if area.sum() == 0:
        return None
    return normals[rng.choice(len(area), p=area / area.sum())]


def _turning(
    start: Float[np.ndarray, "3"], end: Float[np.ndarray, "3"]
) -> Float[np.ndarray, "3 3"]:
    """A rotation that takes one direction to another."""
    return Rotation.align_vectors(end[None], start[None])[0].as_matrix()


def _standing(
    points: Float[np.ndarray, "points 3"], up: Float[np.ndarray, "3"], level: float
) -> Float[np.ndarray, "4 4"]:
    """The motion along upwards that brings an object down, or up, to its support."""
    T = np.eye(4)
    T[:3, 3] = (level - float((points @ up).min())) * up
    return T


def _hand_is_free(
    T_scene_gripper: Float[np.ndarray, "4 4"],
    things: Sequence[PointCloud],
    example: Example,
    floating: bool,
) -> bool:
    """Whether the open hand, and the hand on its way, is neither in other things nor in the table.

    A hand of unknown shape is free everywhere.
    """
    shape = example.gripper.shape
    if shape is None:
        return True
    corners = np.concatenate([vertices for vertices, _ in shape.surfaces()])
    for back in _BACKS:
        pose = backed_off(T_scene_gripper[None], example.gripper, back)[0]
        heights = (corners @ pose[:3, :3].T + pose[:3, 3]) @ example.up
        if not floating and heights.min() < example.level - _DEPTH:
            return False
        for cloud in things:
            local = (cloud.points - pose[:3, 3]) @ pose[:3, :3]
            near = np.square(local).sum(axis=1) < _HAND_REACH**2
            if shape.contains(local[near], -_DEPTH).sum() > _FEW:
                return False
    return True


def _block(
    top: Float[np.ndarray, "3"],
    up: Float[np.ndarray, "3"],
    level: float,
    height: float,
    radius: float,
    colored: bool,
    rng: np.random.Generator,
) -> PointCloud:
    """Top and sides of a block under a point, often smaller than what is on it."""
    half = np.clip(rng.uniform(0.5, 1.3, 2) * radius, 0.015, 0.12)
    side = np.cross(up, rng.normal(size=3))
    side /= np.linalg.norm(side)
    other = np.cross(up, side)
    areas = np.array([4.0 * half[0] * half[1], 4.0 * half[1] * height, 4.0 * half[0] * height])
    on_top, *on_sides = np.maximum(areas / _SPACING**2, 4).astype(int)
    a, b = rng.uniform(-1, 1, on_top), rng.uniform(-1, 1, on_top)
    rows = [np.stack([a * half[0], b * half[1], np.full(on_top, height)], axis=1)]
    for axis, count in enumerate(on_sides):
        local = np.empty((count, 3))
        local[:, axis] = rng.choice([-1.0, 1.0], count) * half[axis]
        local[:, 1 - axis] = rng.uniform(-1, 1, count) * half[1 - axis]
        local[:, 2] = rng.uniform(0, height, count)
        rows.append(local)
    local = np.concatenate(rows)
    ground = top + (level - top @ up) * up
    points = ground + local @ np.stack([side, other, up])
    colors = np.repeat(rng.uniform(size=(1, 3)), len(points), axis=0) if colored else None
    return PointCloud._trusted(
        points.astype(np.float32), None if colors is None else colors.astype(np.float32)
    )
