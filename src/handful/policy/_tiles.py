"""Tiles: a large scene in overlapping parts, each small enough to be encoded and searched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from handful._checks import shown
from handful.clouds import Box
from handful.errors import OptionError

TILE_POINTS = 6000
"""Points that are encoded at once, with the margin; a scene with fewer is one tile."""
NARROWEST = 0.2
"""Metres: cores are not cut any narrower."""
DENSEST = 12_000
"""Points of the narrowest tile, at most."""


@dataclass(frozen=True, eq=False)
class Tile:
    """A part of space, with the points that matter there.

    Attributes:
        core: The tiles' cores fill the box that was cut, and share nothing but faces.
        points: Numbers of the points inside of the core and its margin.
    """

    core: Box
    points: Int[np.ndarray, "points"]


def tiles_of(
    points: Float[np.ndarray, "points 3"], domain: Box, margin: float, most: int = TILE_POINTS
) -> list[Tile]:
    """Cut a box into halves until no core has more than `most` points in and around it.

    Only cores with at least one point are returned. Two points are the fewest that make a cloud,
    therefore a tile of one point gets the nearest other one, which is beyond its margin.

    Args:
        points: Positions [points, 3], metres.
        domain: What is cut.
        margin: How far around a core its points may lie, metres.
        most: Points of a tile.

    Raises:
        OptionError: So many points are so close together that a tile does not fit in memory.
    """
    return list(_cut(points, np.arange(len(points)), domain, margin, most))


def _cut(
    points: Float[np.ndarray, "points 3"],
    near: Int[np.ndarray, "near"],
    core: Box,
    margin: float,
    most: int,
) -> Iterator[Tile]:
    near = near[grown(core, margin).contains(points[near])]
    if len(near) == 0:
        return
    lower, upper = np.array(core.lower), np.array(core.upper)
    axis = int((upper - lower).argmax())
    if len(near) > most and upper[axis] - lower[axis] >= 2.0 * NARROWEST:
        middle = 0.5 * (lower[axis] + upper[axis])
        first, second = upper.copy(), lower.copy()
        first[axis] = second[axis] = middle
        yield from _cut(points, near, _box(lower, first), margin, most)
        yield from _cut(points, near, _box(second, upper), margin, most)
        return
    if len(near) > max(most, DENSEST):
        raise OptionError(
            f"{len(near)} points of the thinned scene are within {margin:.2f} m of a box of "
            f"{upper[axis] - lower[axis]:.2f} m: at most {DENSEST} fit in memory. Leave out points "
            "that are on no surface, or train with a larger voxel size of the encoder."
        )
    yield Tile(core, near if len(near) > 1 else _with_neighbour(points, near))


def _with_neighbour(
    points: Float[np.ndarray, "points 3"], one: Int[np.ndarray, "1"]
) -> Int[np.ndarray, "2"]:
    away = np.linalg.norm(points - points[one], axis=1)
    away[one] = np.inf
    return np.append(one, away.argmin())


def owners(
    tiles: list[Tile], where: Float[np.ndarray, "positions 3"], domain: Box
) -> Int[np.ndarray, "positions"]:
    """Which tile's core each position is in; -1 for none.

    A position outside of the domain belongs to where the nearest position inside does: whatever can
    be seen from it is at least as near to the latter.
    """
    inside = where.clip(np.array(domain.lower), np.array(domain.upper))
    owner = np.full(len(where), -1)
    for number, tile in enumerate(tiles):
        owner[(owner < 0) & tile.core.contains(inside)] = number
    return owner


FARTHEST = 100.0
"""Metres from the origin of a frame beyond which there is no robot's workspace, and no pose."""


def check_workspace(workspace: object, name: str = "workspace") -> None:
    """Refuse what is no box in metres.

    Raises:
        OptionError: It is something else.
    """
    if not isinstance(workspace, Box):
        raise OptionError(
            f"{name} is {shown(workspace)}: need a Box, like Box((-0.3, -0.3, 0.0), (0.3, 0.3, "
            "0.4)) in metres, or None."
        )
    far = max(abs(value) for value in (*workspace.lower, *workspace.upper))
    if far > FARTHEST:
        raise OptionError(
            f"{name} goes to {far:.4g} m from the origin of its frame: need metres; multiply "
            "millimetres by 0.001."
        )


def grown(box: Box, margin: float) -> Box:
    """A box with `margin` metres more on every side."""
    return _box(np.array(box.lower) - margin, np.array(box.upper) + margin)


def _box(lower: Float[np.ndarray, "3"], upper: Float[np.ndarray, "3"]) -> Box:
    low, high = lower.tolist(), upper.tolist()
    return Box((low[0], low[1], low[2]), (high[0], high[1], high[2]))
