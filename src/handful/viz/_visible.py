"""Which points of a cloud a picture shows, and how many of them."""

from __future__ import annotations

import numpy as np

from handful.clouds import PointCloud, voxel_filter
from handful.render import Camera

_DRAWN_POINTS = 35000
"""Points that a picture shows at most."""

_DRAWN_ROWS = 240
"""How many of them fit above each other, if there are not too many."""


def drawable(scene: PointCloud, camera: Camera) -> PointCloud:
    """The points that a camera sees; of too many, as many as a picture can show."""
    seen = _in_view(scene, camera)
    return at_most(seen, visible_height(seen, camera) / _DRAWN_ROWS, _DRAWN_POINTS)


def visible_height(seen: PointCloud, camera: Camera) -> float:
    """From the lowest to the highest row of the image, at the middle distance, metres."""
    distance = abs(float(np.median(camera.to_camera(seen.points)[:, 2])))
    return max(distance * camera.intrinsics.height / camera.intrinsics.fy, 1e-3)


def at_most(cloud: PointCloud, voxel: float, most: int) -> PointCloud:
    """The cloud, thinned by a voxel filter where it has more than `most` points.

    Args:
        cloud: What to thin.
        voxel: Size of the voxels to begin with, metres.
        most: Points that may be left.
    """
    thin = cloud
    while len(thin) > most and voxel < cloud.extent.max():
        thin = voxel_filter(cloud, voxel)
        voxel *= 1.25
    return thin


def _in_view(scene: PointCloud, camera: Camera) -> PointCloud:
    """The points that a camera sees, or all if it sees fewer than two."""
    depth = camera.to_camera(scene.points)[:, 2]
    front = depth > 0.01
    pixel = camera.project(scene.points[front])
    view = camera.intrinsics
    inside = np.zeros(len(scene), dtype=bool)
    inside[front] = ((pixel > -0.5) & (pixel < [view.width, view.height])).all(axis=1)
    return scene.selected(inside) if inside.sum() >= 2 else scene
