"""Visibility: which points of a cloud some cameras would have seen."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial import ConvexHull, QhullError

from handful.clouds import PointCloud

_FLIP_RADIUS = 100.0
"""Radius of the mirror sphere of `visible_from`, in units of the farthest point's distance."""


def drop_view(cloud: PointCloud, views: int, rng: np.random.Generator) -> PointCloud:
    """What would be left had one of several cameras been missing.

    A recorded cloud does not say which camera saw which point. Therefore `views` cameras are
    imagined at random directions in the upper half around the cloud, and the points that only the
    first of them sees are left out.

    Args:
        cloud: The cloud.
        views: How many cameras to imagine, 2 or more.
        rng: Where the randomness comes from.
    """
    directions = rng.normal(size=(views, 3))
    directions[:, 2] = np.abs(directions[:, 2])
    seen = _seen_by_cameras(cloud, directions)
    lost = seen[0] & ~seen[1:].any(axis=0)
    return cloud if len(cloud) - lost.sum() < 2 else cloud.selected(~lost)


def some_sides(cloud: PointCloud, rng: np.random.Generator) -> PointCloud:
    """What one or two cameras see of the cloud, from anywhere.

    A thick wall has two surfaces in a cloud, and a thin one, or one seen from one side, has one.
    """
    views = _seen_by_cameras(cloud, rng.normal(size=(rng.integers(1, 3), 3)))
    seen = views.sum(axis=0) > 0
    return cloud if seen.sum() < 2 else cloud.selected(seen)


def _seen_by_cameras(
    cloud: PointCloud, directions: Float[np.ndarray, "cameras 3"]
) -> Bool[np.ndarray, "cameras points"]:
    """Which points are seen by cameras that look at the cloud's middle from given directions."""
    low, high = cloud.bounds
    center, reach = (low + high) / 2.0, float(np.linalg.norm(high - low))
    unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return np.stack([visible_from(cloud, center + 1.5 * reach * d) for d in unit])


def visible_from(cloud: PointCloud, eye: Float[np.ndarray, "3"]) -> Bool[np.ndarray, "points"]:
    """Which points are not hidden behind others, by the hidden point removal operator.

    Points are mirrored outwards at a large sphere around the eye; those on the convex hull of the
    mirrored points and the eye are visible (Katz, Tal and Basri, 2007).
    """
    offset = cloud.points.astype(np.float64) - eye
    distance = np.linalg.norm(offset, axis=1, keepdims=True)
    mirrored = offset * (2.0 * _FLIP_RADIUS * distance.max() / distance - 1.0)
    try:
        hull = ConvexHull(np.concatenate([mirrored, np.zeros((1, 3))]))
    except QhullError:  # fewer than four points, or all in one plane with the eye
        return np.ones(len(cloud), dtype=bool)
    visible = np.zeros(len(cloud) + 1, dtype=bool)
    visible[hull.vertices] = True
    return visible[:-1]
