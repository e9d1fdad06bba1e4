"""Cylinders from points: the wall of a mug, the post and the arm of a hanger."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial import cKDTree

Array = np.ndarray


class FitError(ValueError):
    """What was looked for is not in the cloud, or too little of it was seen."""


@dataclass(frozen=True, eq=False)
class Cylinder:
    """An endless cylinder: a point of its axis, the axis' unit direction, a radius in metres."""

    point: Array
    axis: Array
    radius: float

    def along(self, points: Array) -> Array:
        """Where points are along the axis [points], metres from `point`."""
        return (points - self.point) @ self.axis

    def across(self, points: Array) -> Array:
        """Offsets from the axis to points [points, 3], at right angles to it."""
        offset = points - self.point
        return offset - np.outer(offset @ self.axis, self.axis)

    def distance(self, points: Array) -> Array:
        """Distance of points from the axis [points], metres."""
        return np.linalg.norm(self.across(points), axis=1)


def across_basis(axis: Array) -> tuple[Array, Array]:
    """Two unit vectors that make a right-handed frame (first, second, axis)."""
    first = np.cross(axis, np.eye(3)[np.abs(axis).argmin()])
    first /= np.linalg.norm(first)
    return first, np.cross(axis, first)


def normals_of(points: Array, neighbours: int = 12) -> Array:
    """Unit normals [points, 3], of either sign, from each point's nearest neighbours."""
    _, near = cKDTree(points).query(points, min(neighbours, len(points)))
    patches = points[near] - points[near].mean(axis=1, keepdims=True)
    return np.linalg.eigh(np.einsum("pki,pkj->pij", patches, patches))[1][:, :, 0]


def axis_of_normals(normals: Array, rng: np.random.Generator, trials: int = 400) -> Array:
    """The direction that most normals are at right angles to."""
    pairs = normals[rng.integers(len(normals), size=(trials, 2))]
    axes = np.cross(pairs[:, 0], pairs[:, 1])
    length = np.linalg.norm(axes, axis=1)
    axes = axes[length > 0.3] / length[length > 0.3, None]
    if not len(axes):
        raise FitError("all normals are parallel: this is no cylinder.")
    axis = axes[(np.abs(normals @ axes.T) < 0.1).sum(axis=0).argmax()]
    for _ in range(3):
        wall = normals[np.abs(normals @ axis) < 0.15]
        axis = np.linalg.eigh(wall.T @ wall)[1][:, 0]
    return axis


def circle_through(
    flat: Array, rng: np.random.Generator, radii: tuple[float, float], trials: int = 600
) -> tuple[Array, float]:
    """Centre and radius of the circle that passes within 1.5 mm of most points [points, 2]."""
    a, b, c = np.moveaxis(flat[rng.integers(len(flat), size=(trials, 3))], 1, 0)
    doubled = 2.0 * np.stack([b - a, c - a], axis=1)
    usable = np.abs(np.linalg.det(doubled)) > 1e-6
    a, b, c, doubled = a[usable], b[usable], c[usable], doubled[usable]
    squares = np.stack([(b**2 - a**2).sum(1), (c**2 - a**2).sum(1)], axis=1)
    centers = np.linalg.solve(doubled, squares[..., None])[..., 0]
    radius = np.linalg.norm(centers - a, axis=1)
    usable = (radius > radii[0]) & (radius < radii[1])
    if not usable.any():
        raise FitError(f"no circle of radius {radii[0]} to {radii[1]} m fits the wall.")
    centers, radius = centers[usable], radius[usable]
    gaps = np.abs(np.linalg.norm(flat[None] - centers[:, None], axis=2) - radius[:, None])
    best = (gaps < 0.0015).sum(axis=1).argmax()
    return centers[best], float(radius[best])


def refined(cylinder: Cylinder, points: Array, radii: tuple[float, float]) -> Cylinder:
    """The cylinder near `cylinder` with the smallest robust distance to points of its surface."""
    first, second = across_basis(cylinder.axis)
    middle = cylinder.point + cylinder.axis * cylinder.along(points).mean()

    def unpack(values: Array) -> Cylinder:
        axis = cylinder.axis + values[0] * first + values[1] * second
        point = middle + values[2] * first + values[3] * second
        return Cylinder(point, axis / np.linalg.norm(axis), float(values[4]))

    def gaps(values: Array) -> Array:
        trial = unpack(values)
        return trial.distance(points) - trial.radius

    start = np.array([0.0, 0.0, 0.0, 0.0, np.clip(cylinder.radius, *radii)])
    lower = np.array([-1.0, -1.0, -0.05, -0.05, radii[0]])
    upper = np.array([1.0, 1.0, 0.05, 0.05, radii[1]])
    scale = [1.0, 1.0, 0.1, 0.1, 0.1]
    found = least_squares(
        gaps, start, bounds=(lower, upper), loss="soft_l1", f_scale=0.001, x_scale=scale
    )
    return unpack(found.x)
