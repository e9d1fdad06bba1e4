"""Things to paste into a scene: pieces of other scenes, boxes, balls, a column under a mug."""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Sequence

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from edf_mug.cylinders import Array
from edf_mug.shapes import Mug, find_table, is_green, is_red
from handful.clouds import PointCloud, concatenate
from handful.demos import Demonstration

PIECES = (3, 4)
"""How many, at least and at most."""

DISTANCE = 0.04
"""Smallest distance of clutter to the mug, the hanger and other clutter, metres."""

SPACING = 0.0025
"""Between the points of made-up surfaces, metres; about that of the demonstrations."""

RED, GREEN = 0.0, 1.0 / 3.0
"""Hues."""

_TRIES = 300


def add_clutter(
    scene: PointCloud, others: Sequence[Demonstration], rng: np.random.Generator
) -> PointCloud:
    """The scene with three or four things on its table, clear of mug, hanger and each other.

    The first two are pieces of the mugs and hangers of other scenes, the others may be boxes and
    balls. Pieces of mugs are never red and pieces of hangers never green: those would be targets.

    Args:
        scene: Its table is level.
        others: Where pieces come from; without any, all things are boxes and balls.
        rng: Where the randomness comes from.
    """
    table = find_table(scene)
    taken = scene.points[is_red(scene) | is_green(scene)]
    taken = taken if len(taken) else scene.points[:1] + np.float32(10.0)
    pieces = [scene]
    for number in range(rng.integers(PIECES[0], PIECES[1] + 1)):
        for _ in range(_TRIES):
            piece = _piece(others, rng, made_up=number >= 2 or not others)
            shift = np.eye(4)
            shift[:2, 3] = table.point[:2] + rng.uniform(-0.24, 0.24, 2)
            shift[2, 3] = table.point[2] - piece.points[:, 2].min()
            piece = piece.transformed(shift)
            # Seen from above, so that nothing is over or under the target either.
            gaps, _ = cKDTree(taken[:, :2]).query(piece.points[:, :2])
            if gaps.min() > DISTANCE and np.abs(piece.points[:, :2]).max() < 0.3:
                pieces.append(piece)
                taken = np.concatenate([taken, piece.points])
                break
    return concatenate(pieces)


def column_under(mug: Mug, height: float, rng: np.random.Generator) -> PointCloud:
    """A round column from the table to the bottom of an upright mug, `height` metres tall."""
    radius = mug.outer_radius * rng.uniform(0.8, 1.2)
    around = np.arange(0.0, 2 * np.pi, SPACING / radius)
    turn, z = np.meshgrid(around, np.arange(0.0, height, SPACING))
    side = np.stack([radius * np.cos(turn), radius * np.sin(turn), z], axis=-1).reshape(-1, 3)
    grid = np.arange(-radius, radius, SPACING)
    x, y = (axis.ravel() for axis in np.meshgrid(grid, grid))
    edge = np.hypot(x, y)
    seen = (edge < radius) & (edge > mug.outer_radius)  # of its top, what the mug leaves free
    top = np.stack([x, y, np.full(x.shape, height)], axis=1)[seen]
    foot = mug.rim - (mug.height + height) * mug.axis
    points = np.concatenate([side, top]) + foot
    return PointCloud(points, np.broadcast_to(_color(rng, RED), points.shape))


def _piece(others: Sequence[Demonstration], rng: np.random.Generator, made_up: bool) -> PointCloud:
    seen = ["mug", "hanger"] if others else []
    kind = rng.choice([*seen, "box", "ball"] if made_up else seen)
    if kind == "mug":
        return _chunk(others, rng, is_red, RED)
    if kind == "hanger":
        return _chunk(others, rng, is_green, GREEN)
    size = rng.uniform(0.02, 0.06, 3)
    points = (_box(size) if kind == "box" else _ball(size)) @ _turn(rng).T
    return PointCloud(points, np.broadcast_to(_color(rng), points.shape))


def _chunk(
    others: Sequence[Demonstration],
    rng: np.random.Generator,
    which: Callable[[PointCloud], Array],
    hue: float,
) -> PointCloud:
    """A third to two thirds of another scene's mug or hanger, cut by a plane, of another colour."""
    scene = others[rng.integers(len(others))].step("pick").scene
    thing = scene.selected(which(scene))
    points = thing.points.astype(np.float64) - thing.points.mean(axis=0)
    across = points @ _turn(rng)[0]
    kept = across < np.quantile(across, rng.uniform(1 / 3, 2 / 3))
    shade = thing.require_colors()[kept].max(axis=1, keepdims=True)  # the light stays
    color = _color(rng, hue) * shade / shade.max()
    return PointCloud(points[kept] @ _turn(rng).T, color.clip(0.0, 1.0))


def _turn(rng: np.random.Generator) -> Array:
    return Rotation.random(random_state=rng).as_matrix()


def _color(rng: np.random.Generator, not_hue: float | None = None) -> Array:
    """A random colour, of a hue at least an eighth of the circle away from `not_hue`."""
    hue = rng.random() if not_hue is None else not_hue + rng.uniform(0.125, 0.875)
    return np.array(colorsys.hsv_to_rgb(hue % 1.0, rng.uniform(0.3, 1.0), rng.uniform(0.4, 0.95)))


def _box(half: Array) -> Array:
    """Points on a box with the half sides `half`."""
    faces = []
    for axis in range(3):
        u, v = (k for k in range(3) if k != axis)
        first, second = np.meshgrid(
            np.arange(-half[u], half[u], SPACING), np.arange(-half[v], half[v], SPACING)
        )
        for sign in (-1.0, 1.0):
            face = np.empty((first.size, 3))
            face[:, u], face[:, v], face[:, axis] = first.ravel(), second.ravel(), sign * half[axis]
            faces.append(face)
    return np.concatenate(faces)


def _ball(half: Array) -> Array:
    """Points on an ellipsoid with the half axes `half`, by the golden spiral."""
    count = int(4 * np.pi * (half.mean() / SPACING) ** 2)
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    turn = np.pi * (3.0 - np.sqrt(5.0)) * np.arange(count)
    ring = np.sqrt(1.0 - z**2)
    return np.stack([ring * np.cos(turn), ring * np.sin(turn), z], axis=1) * half
