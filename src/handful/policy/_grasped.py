"""Which points of a scene would leave it with the gripper, told from the cloud alone.

Nobody says what is an object. The points between the fingers belong to it, and so do the points
that hang together with these; but everything hangs together with what it stands on. So the region
stops at supports, which are known by their shape:

1. Level surfaces below the contact that are too large for the inside of a held thing: a table.
2. A block whose level top shows at its rim, and which is at least as wide as all that is above it.

Where the region does not stop, or where hardly anything is left of it, nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import ConvexHull, QhullError, cKDTree

from handful.clouds import PointCloud
from handful.demos import Gripper

EXTENT = 0.4
"""Metres from the contact: a region that comes so far is no single thing."""
COARSE, FINE = 0.008, 0.004
"""Cells that the cloud is thinned to, to find tables and then what stands on them, metres."""
LINK = 1.75
"""Cells no farther apart than this multiple of their size hang together; farther in a sparse cloud.
"""
AROUND = 2.25
"""Radius of the surroundings that tell whether a surface is level, as a multiple of the cells."""
LEVEL = 0.2
"""Most vertical variance of a level surface, as a share of the horizontal one. A slope of 24
degrees has it, and a level table with 3 mm of noise."""
TABLE_AREA = 0.006
"""Square metres of a table that must be seen; the bottom of a mug or a bowl shows less."""
BESIDE_TABLE = 0.03
"""Metres beside a table's level cells where its height is still known: at the foot of a thing."""
ABOVE_SUPPORT = 0.004
"""Points this little above a support belong to it, metres; more where it is noisy."""
NOISE = 2.5
"""Standard deviations of a support's own height that are added."""
BLOCK_RIM = 0.012
"""Metres from the outline of a block where its level top must show; the bottom of a mug is inside
of its wall and is nowhere so near."""
BLOCK_AREA = 1.5e-4
"""Square metres of the top that must show there."""
BLOCK_SHARE = 0.9
"""Least area of a block's outline, as a share of the outline of the block and all above it."""
BEHIND, BEYOND, WIDE = 0.04, 0.01, 0.012
"""What is between the fingers: metres behind the contact, beyond it, and to either side."""
FEWEST = 12
"""A region of fewer cells is too small to be told."""
SURROUNDINGS, SOMETHING = 0.12, 2
"""Metres around the contact that tell a table from other things, and the fewest points between the
fingers that are something: one may be noise."""


@dataclass(frozen=True, eq=False)
class Taken:
    """What would leave the scene with the gripper. It is false where that cannot be told.

    Attributes:
        points: Which points of the scene; none where it cannot be told.
        why_not: Why it cannot be told, for people; empty where it can.
    """

    points: Bool[np.ndarray, "points"]
    why_not: str = ""

    def __bool__(self) -> bool:
        return not self.why_not


def points_taken(
    scene: PointCloud,
    T_scene_gripper: Float[np.ndarray, "4 4"],
    gripper: Gripper,
    table: float | None = None,
) -> Taken:
    """Which points of a scene leave it with a gripper that closes at a pose.

    Args:
        scene: Scene cloud, z up, metres.
        T_scene_gripper: Where the gripper closes.
        gripper: Its contact frame and opening are used.
        table: Height of a table, if it is known, metres. Supports are found without it.
    """
    nothing = np.zeros(len(scene), dtype=bool)
    T_scene_contact = T_scene_gripper @ gripper.T_gripper_contact
    contact = T_scene_contact[:3, 3]
    offset = scene.points - contact.astype(scene.points.dtype)
    near = np.flatnonzero(np.einsum("pi,pi->p", offset, offset) < EXTENT**2)
    if len(near) < FEWEST:
        return Taken(nothing, "nothing is near the contact")
    points = scene.points[near].astype(np.float64)
    between = _between_fingers(points, T_scene_contact, gripper)
    standing = ~_on_table(points, contact, table)
    if not (between & standing).any():
        return Taken(nothing, "nothing is between the fingers")
    region = _hanging_together(points, standing, between, COARSE)
    if np.linalg.norm(points[region] - contact, axis=1).max() > EXTENT - 2 * COARSE:
        return Taken(nothing, "what is between the fingers hangs together with everything")
    region = _without_block(points, region, between, contact)
    if len(_cells_of(points[region], COARSE)[0]) < FEWEST:
        return Taken(nothing, "what is between the fingers is too small to be told")
    nothing[near[region]] = True
    return Taken(nothing)


def closes_on_something(
    points: Float[np.ndarray, "points 3"],
    T_scene_gripper: Float[np.ndarray, "4 4"],
    gripper: Gripper,
    table: float | None = None,
) -> bool:
    """Whether anything but a table is between the fingers of a gripper at a pose.

    Args:
        points: Of the scene, z up, metres.
        T_scene_gripper: Where the gripper closes.
        gripper: Its contact frame and opening are used.
        table: Height of a table, if it is known, metres.
    """
    T_scene_contact = T_scene_gripper @ gripper.T_gripper_contact
    contact = T_scene_contact[:3, 3]
    near = points[(np.abs(points - contact) < SURROUNDINGS).all(axis=1)]
    between = _between_fingers(near, T_scene_contact, gripper)
    if between.sum() < SOMETHING:
        return False
    return int((between & ~_on_table(near, contact, table)).sum()) >= SOMETHING


def _between_fingers(
    points: Float[np.ndarray, "points 3"],
    T_scene_contact: Float[np.ndarray, "4 4"],
    gripper: Gripper,
) -> Bool[np.ndarray, "points"]:
    """Which points the fingers would close on."""
    x, y, z = ((points - T_scene_contact[:3, 3]) @ T_scene_contact[:3, :3]).T
    return (np.abs(x) <= gripper.opening / 2) & (np.abs(y) <= WIDE) & (z >= -BEHIND) & (z <= BEYOND)


def _on_table(
    points: Float[np.ndarray, "points 3"], contact: Float[np.ndarray, "3"], table: float | None
) -> Bool[np.ndarray, "points"]:
    """Which points are of a large level surface below the contact."""
    below = points[:, 2] < (-np.inf if table is None else table + ABOVE_SUPPORT)
    cells, owner = _cells_of(points, COARSE)
    tree = _tree(cells)
    spacing = _spacing(tree, COARSE)
    rough, level, pairs = _levelness(tree, spacing)
    level &= cells[:, 2] < contact[2]
    parts = _components(pairs[level[pairs].all(axis=1)], len(cells))
    area = np.bincount(parts, level) * spacing**2
    large = np.flatnonzero(level & (area[parts] >= TABLE_AREA))
    if not len(large):
        return below
    # The height of the table at each cell that is on it or beside it. Points are compared with it,
    # and not cells: a cell at the foot of a thing holds points of both.
    height = np.full(len(cells), -np.inf)
    height[large] = cells[large, 2]
    others = np.flatnonzero(np.isneginf(height))
    nearest = list(range(1, min(4, len(large)) + 1))
    apart, which = _tree(cells[large, :2]).query(
        cells[others, :2], k=nearest, distance_upper_bound=BESIDE_TABLE
    )
    beside = np.isfinite(apart).all(axis=1)
    height[others[beside]] = cells[large[which[beside]], 2].mean(axis=1)
    margin = ABOVE_SUPPORT + NOISE * float(np.median(rough[large]))
    return below | (points[:, 2] < height[owner] + margin)


def _without_block(
    points: Float[np.ndarray, "points 3"],
    region: Bool[np.ndarray, "points"],
    between: Bool[np.ndarray, "points"],
    contact: Float[np.ndarray, "3"],
) -> Bool[np.ndarray, "points"]:
    """The region without a block that the thing between the fingers stands on."""
    cells, _ = _cells_of(points[region], FINE)
    tree = _tree(cells)
    size = _spacing(tree, FINE)
    _, level, _ = _levelness(tree, size)
    level &= cells[:, 2] < contact[2]
    for height in _heights(cells[level, 2], BLOCK_AREA / size**2):
        top = cells[level & (np.abs(cells[:, 2] - height) < ABOVE_SUPPORT)]
        below = cells[cells[:, 2] < height + ABOVE_SUPPORT / 2]
        try:
            block, everything = ConvexHull(below[:, :2]), ConvexHull(cells[:, :2])
        except QhullError:  # All on a line, or fewer than three.
            continue
        inside = -(top[:, :2] @ block.equations[:, :2].T + block.equations[:, 2]).max(axis=1)
        shown = (inside < BLOCK_RIM).sum() * size**2
        # `volume` of a hull in the plane is its area.
        if shown >= BLOCK_AREA and block.volume >= BLOCK_SHARE * everything.volume:
            above = region & (points[:, 2] > height + ABOVE_SUPPORT)
            if (above & between).any():
                return _hanging_together(points, above, between, COARSE)
    return region


def _heights(z: Float[np.ndarray, "cells"], fewest: float) -> list[float]:
    """Heights at which many level cells are, the highest first, metres."""
    if not len(z):
        return []
    number = np.floor((z - z.min()) / ABOVE_SUPPORT).astype(np.int64)
    counts = np.bincount(number)
    means = np.bincount(number, z) / counts.clip(min=1)
    around = counts + np.append(counts[1:], 0) + np.append(0, counts[:-1])
    found = np.flatnonzero((counts > 0) & (around >= fewest))
    return [float(means[one]) for one in found[::-1]]


def _hanging_together(
    points: Float[np.ndarray, "points 3"],
    some: Bool[np.ndarray, "points"],
    between: Bool[np.ndarray, "points"],
    size: float,
) -> Bool[np.ndarray, "points"]:
    """Those of some points that hang together with most of the ones between the fingers."""
    cells, owner = _cells_of(points[some], size)
    tree = _tree(cells)
    link = LINK * _spacing(tree, size)
    parts = _components(tree.query_pairs(link, output_type="ndarray"), len(cells))
    of_points = parts[owner]
    region = np.zeros(len(points), dtype=bool)
    region[some] = of_points == np.bincount(of_points[between[some]]).argmax()
    return region


def _levelness(
    tree: cKDTree, spacing: float
) -> tuple[Float[np.ndarray, "cells"], Bool[np.ndarray, "cells"], Int[np.ndarray, "pairs 2"]]:
    """Standard deviation of height around each cell, whether it is level there, and neighbours."""
    cells, count = tree.data, tree.n
    pairs = tree.query_pairs(AROUND * spacing, output_type="ndarray")
    x, y, z = (cells[pairs[:, 1]] - cells[pairs[:, 0]]).T
    # Of a cell's surroundings, itself included: their number, and sums of offsets and products.
    number = 1.0 + np.bincount(pairs.ravel(), minlength=count)
    first, second = pairs[:, 0], pairs[:, 1]

    def mean(values: Float[np.ndarray, "pairs"], sign: float) -> Float[np.ndarray, "cells"]:
        one = np.bincount(first, values, minlength=count)
        return (one + sign * np.bincount(second, values, minlength=count)) / number

    mx, my, mz = (mean(values, -1.0) for values in (x, y, z))
    xx, yy, zz = mean(x * x, 1.0) - mx**2, mean(y * y, 1.0) - my**2, mean(z * z, 1.0) - mz**2
    xy = mean(x * y, 1.0) - mx * my
    # The smaller variance along the level: an edge is a line, and no surface.
    along = (xx + yy) / 2.0 - np.sqrt(((xx - yy) / 2.0) ** 2 + xy**2)
    return np.sqrt(zz.clip(min=0.0)), (zz < LEVEL * along) & (number >= 5), pairs


def _tree(cells: Float[np.ndarray, "cells axes"]) -> cKDTree:
    """A tree that is quick to build; it is asked once or twice."""
    return cKDTree(cells, leafsize=32, compact_nodes=False, balanced_tree=False)


def _spacing(tree: cKDTree, size: float) -> float:
    """Distance of neighbouring cells, metres: their size, and more in a sparse cloud."""
    if tree.n < 2:
        return size
    some = tree.data[:: max(1, tree.n // 200)]
    return max(size, float(np.median(tree.query(some, k=[2])[0])))


def _components(pairs: Int[np.ndarray, "pairs 2"], count: int) -> Int[np.ndarray, "count"]:
    graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), (count, count))
    parts: Int[np.ndarray, "count"] = connected_components(graph, directed=False)[1]
    return parts


def _cells_of(
    points: Float[np.ndarray, "points 3"], size: float
) -> tuple[Float[np.ndarray, "cells 3"], Int[np.ndarray, "points"]]:
    """Barycentres of the occupied cells of a grid, and the cell of each point."""
    index = np.floor((points - points.min(axis=0)) / size).astype(np.int64)
    shape = index.max(axis=0) + 1
    number = (index[:, 0] * shape[1] + index[:, 1]) * shape[2] + index[:, 2]
    _, owner, counts = np.unique(number, return_inverse=True, return_counts=True)
    owner = owner.reshape(-1)
    sums = [np.bincount(owner, points[:, i]) for i in range(3)]
    return np.stack(sums, axis=1) / counts[:, None], owner
