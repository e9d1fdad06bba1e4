"""The largest plane of a cloud: mostly a table, which says where up is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial import cKDTree

THICK = 0.008
"""Metres: points nearer than this to a plane are on it. Depth cameras are rough by 1 to 5 mm."""
SHARE = 0.25
"""Least share of a cloud's points on a plane that says anything about the scene."""
TRIALS, POINTS = 400, 4000
"""Planes through three points that are tried, and points that they are tried on. A plane with a
quarter of the points is missed by all 400 with a probability of 0.2%."""
FEWEST = 100
"""Points of a cloud, thinned: in fewer a quarter is on some plane by chance."""
CLEARLY, FEW = 3.0, 0.01
"""How many times more points must be on the lower side than on the upper one, and at least which
share of the cloud, for a surface to be seen from below: a bare table has some noise on both."""
SHALLOW = 0.03
"""Metres around a place, seen along the normal, within which a plane must have points to be there:
a hole or an edge of a table is wider."""


@dataclass(frozen=True, eq=False)
class Plane:
    """A plane with the side that things stand on.

    Attributes:
        normal: Unit vector to the side where things stand; upwards where that cannot be told.
        offset: normal . x of its points, metres.
        share: Of all points of the cloud.
        points: Those on it.
    """

    normal: Float[np.ndarray, "3"]
    offset: float
    share: float
    points: Float[np.ndarray, "points 3"]

    @property
    def tilt(self) -> float:
        """Angle between the normal and z, radians, 0 to pi."""
        return float(np.arccos(np.clip(self.normal[2], -1.0, 1.0)))

    @cached_property
    def _footprint(self) -> tuple[Float[np.ndarray, "2 3"], cKDTree]:
        across = np.linalg.svd(self.normal[None])[2][1:]
        return across, cKDTree(self.points @ across.T)

    def below(
        self, points: Float[np.ndarray, "points 3"], depth: float
    ) -> Bool[np.ndarray, "points"]:
        """Which points are deeper than `depth` under a part of the plane that was seen."""
        found = points @ self.normal < self.offset - depth
        if found.any():
            across, tree = self._footprint
            found[found] = tree.query(points[found] @ across.T)[0] < SHALLOW
        return found


def largest_plane(points: Float[np.ndarray, "points 3"]) -> Plane | None:
    """The plane with the most points near it; None if it has less than `SHARE` of them.

    Planes through three random points are compared (RANSAC), always with the same random numbers,
    and the best one is fitted to its points.
    """
    some = points[:: max(1, -(-len(points) // POINTS))]
    if len(some) < FEWEST:
        return None
    rng = np.random.default_rng(0)
    a, b, c = (some[rng.integers(len(some), size=TRIALS)] for _ in range(3))
    normals = np.cross(b - a, c - a)
    length = np.linalg.norm(normals, axis=1)
    usable = length > 1e-6
    normals, a = normals[usable] / length[usable, None], a[usable]
    if not len(normals):
        return None
    heights = normals @ some.T - np.einsum("pi,pi->p", normals, a)[:, None]
    best = int((np.abs(heights) < THICK).sum(axis=1).argmax())
    normal, offset = normals[best], float(normals[best] @ a[best])
    for _ in range(3):
        near = some[np.abs(some @ normal - offset) < THICK]
        middle = near.mean(axis=0)
        normal = np.linalg.svd(near - middle, full_matrices=False)[2][2]
        offset = float(normal @ middle)
    height = points @ normal - offset
    on = np.abs(height) < THICK
    share = float(on.mean())
    if share < SHARE:
        return None
    if normal[2] < 0:
        normal, offset, height = -normal, -offset, -height
    above, below = int((height > THICK).sum()), int((height < -THICK).sum())
    if below > CLEARLY * above and below > FEW * len(points):
        normal, offset = -normal, -offset
    return Plane(normal, offset, share, points[on])
