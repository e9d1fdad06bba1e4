"""What should be seen in a picture of a hand and a scene, and from which directions."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial import cKDTree

from handful.render import Camera

TRIAL_POINTS = 4000
"""Points of a cloud that are enough to choose a view."""


def thinned(points: Float[np.ndarray, "points 3"]) -> Float[np.ndarray, "some 3"]:
    """Every n-th point, as many as are enough to choose a view."""
    return points[:: max(1, -(-len(points) // TRIAL_POINTS))].astype(np.float64)


def near(
    points: Float[np.ndarray, "points 3"], center: Float[np.ndarray, "3"], radius: float
) -> Float[np.ndarray, "some 3"]:
    """The points closer than `radius` metres to a place, thinned; there may be none."""
    return thinned(points[np.linalg.norm(points - center, axis=1) < radius])


def above_table(points: Float[np.ndarray, "points 3"]) -> Bool[np.ndarray, "points"]:
    """Which points are of things and not of the table: all but the lowest twentieth in height."""
    if not len(points):
        return np.zeros(0, dtype=bool)
    low, high = points[:, 2].min(), points[:, 2].max()
    return points[:, 2] > low + 0.05 * (high - low)


def closeness(
    points: Float[np.ndarray, "points 3"], others: Float[np.ndarray, "others 3"], length: float
) -> Float[np.ndarray, "points"]:
    """How close each point is to the nearest other: 1 where they touch, exp(-(gap/length)^2)."""
    if not len(points) or not len(others):
        return np.zeros(len(points))
    gap, _ = cKDTree(others).query(points)
    return np.exp(-((gap / length) ** 2))


def weighted_mean(
    points: Float[np.ndarray, "points 3"],
    weights: Float[np.ndarray, "points"],
    otherwise: Float[np.ndarray, "3"],
) -> Float[np.ndarray, "3"]:
    """The weighted mean of points, or another point where there is no weight."""
    total = float(weights.sum())
    return weights @ points / total if total > 1e-6 else otherwise


def across(cameras: list[Camera], axis: Float[np.ndarray, "3"], most: float) -> list[Camera]:
    """The cameras that look across an axis more than along it.

    Args:
        cameras: One or more.
        axis: Unit vector in the scene.
        most: Largest share |cos| of the direction of sight along the axis; larger where all
            cameras look along it.
    """
    along = [abs(float(camera.T_scene_camera[:3, 2] @ axis)) for camera in cameras]
    limit = max(most, min(along))
    return [camera for camera, share in zip(cameras, along, strict=True) if share <= limit]


def columns(groups: list[Float[np.ndarray, "_"]]) -> Float[np.ndarray, "points groups"]:
    """One column for each group of consecutive points, zero outside the group."""
    table = np.zeros((sum(map(len, groups)), len(groups)))
    start = 0
    for column, values in enumerate(groups):
        table[start : start + len(values), column] = values
        start += len(values)
    return table
