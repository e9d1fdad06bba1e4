"""Clouds as discs: how large each disc is, and which colour."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial import cKDTree

from handful.clouds import PointCloud
from handful.render._camera import Camera
from handful.render._raster import NEAR, DepthBuffer, draw_discs

NEIGHBOURS = 6
"""A disc reaches about to this many nearest neighbours, so that surfaces close."""

_HEIGHT_COLORS = np.array(
    [
        [0.5, 0.55, 0.66],
        [0.22, 0.47, 0.67],
        [0.27, 0.66, 0.58],
        [0.75, 0.79, 0.4],
        [0.98, 0.74, 0.25],
    ]
)
"""Grey-blue is low, yellow is high; evenly spaced."""


def disc_radii(points: Float[np.ndarray, "points 3"]) -> Float[np.ndarray, "points"]:
    """Radius of each point's disc in the unit of `points`, from how far its neighbours are.

    A point far from all others (noise) does not get a disc larger than twice the usual.
    """
    count = min(NEIGHBOURS + 1, len(points))
    distance, _ = cKDTree(points).query(points, k=[count])
    reach = distance[:, 0]
    usual = float(np.median(reach))
    return 0.65 * np.clip(reach, 0.4 * usual, 2.0 * usual)


def height_colors(points: Float[np.ndarray, "points 3"]) -> Float[np.ndarray, "points 3"]:
    """Colours for points that have none, from their height z."""
    z = points[:, 2].astype(np.float64)
    low, high = np.percentile(z, [0.5, 99.5])
    share = np.clip((z - low) / max(high - low, 1e-9), 0.0, 1.0) * (len(_HEIGHT_COLORS) - 1)
    knots = np.arange(len(_HEIGHT_COLORS))
    return np.stack([np.interp(share, knots, column) for column in _HEIGHT_COLORS.T], axis=1)


def draw_clouds(
    buffer: DepthBuffer,
    clouds: list[PointCloud],
    camera: Camera,
    point_size: float = 1.0,
    first_owner: int = 0,
) -> Float[np.ndarray, "drawn 3"]:
    """Draw clouds into a depth buffer; the colours of the points in view, as `owner` counts them.

    Args:
        buffer: Where to draw.
        clouds: In the scene frame, metres.
        camera: Where from.
        point_size: Scales all discs.
        first_owner: Number of the first point in `DepthBuffer.owner`.
    """
    colors = []
    for cloud in clouds:
        seen = _in_view(cloud.points, camera)
        points = cloud.points[seen].astype(np.float64)
        if not len(points):
            continue
        radii = point_size * disc_radii(points)
        draw_discs(buffer, camera.to_camera(points), radii, first_owner)
        first_owner += len(points)
        colors.append(_colors(cloud)[seen])
    return np.concatenate([np.zeros((0, 3)), *colors])


def _colors(cloud: PointCloud) -> Float[np.ndarray, "points 3"]:
    return height_colors(cloud.points) if cloud.colors is None else cloud.colors


def _in_view(points: Float[np.ndarray, "points 3"], camera: Camera) -> Bool[np.ndarray, "points"]:
    """Which points may show in the image; those up to a tenth of it outside count as well."""
    local = camera.to_camera(points.astype(np.float64))
    view, z = camera.intrinsics, local[:, 2]
    across = np.abs(view.fx * local[:, 0] + (view.cx - view.width / 2) * z)
    along = np.abs(view.fy * local[:, 1] + (view.cy - view.height / 2) * z)
    return (z > NEAR) & (across < 0.6 * view.width * z) & (along < 0.6 * view.height * z)
