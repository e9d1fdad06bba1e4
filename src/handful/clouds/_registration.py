"""Depth and colour from two cameras of one device: each depth pixel gets its colour."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Shaped
from scipy.ndimage import minimum_filter

from handful.clouds._intrinsics import Intrinsics
from handful.clouds._rgbd import RgbdView
from handful.errors import CloudShapeError

HIDDEN = 0.02
"""Metres behind what the colour camera sees in a pixel, from which on a point is hidden from it."""


def registered_view(
    depth: Float[np.ndarray, "rows columns"],
    depth_intrinsics: Intrinsics,
    color: Shaped[np.ndarray, "height width 3"],
    color_intrinsics: Intrinsics,
    T_color_depth: Shaped[np.ndarray, "4 4"],
    T_scene_color: Shaped[np.ndarray, "4 4"],
) -> RgbdView:
    """What a depth camera saw, with the colours that another camera beside it saw there.

    Points that the colour camera does not see, outside of its image or hidden behind something
    nearer, are left out: they would take the colour of something else.

    Args:
        depth: Metres along the depth camera's optical axis; 0 where nothing was seen.
        depth_intrinsics: Of the depth image.
        color: uint8 image.
        color_intrinsics: Of the colour image.
        T_color_depth: Maps the depth camera's optical frame to the colour camera's.
        T_scene_color: Maps the colour camera's optical frame to the scene.

    Returns:
        A view from the depth camera.
    """
    size = (color_intrinsics.height, color_intrinsics.width)
    if color.shape != (*size, 3) or color.dtype != np.uint8:
        raise CloudShapeError(
            f"colour image is {color.dtype} {color.shape}: need uint8 {(*size, 3)}."
        )
    row, column = np.nonzero(np.isfinite(depth) & (depth > 0))
    z = depth[row, column]
    ray = depth_intrinsics.rays(column, row)
    points = np.concatenate([ray * z[:, None], z[:, None]], axis=1)
    points = points @ T_color_depth[:3, :3].T + T_color_depth[:3, 3]
    ahead = points[:, 2] > 0.0
    row, column, points = row[ahead], column[ahead], points[ahead]
    found = np.rint(color_intrinsics.project(points))
    inside = (found >= 0).all(axis=1) & (found < np.array(size)[::-1]).all(axis=1)
    row, column, points = row[inside], column[inside], points[inside]
    there, beside = found[inside].astype(np.int64).T
    nearest = _nearest(beside, there, points[:, 2], size, color_intrinsics.fx / depth_intrinsics.fx)
    seen = points[:, 2] <= nearest[beside, there] + HIDDEN
    registered = np.zeros((*depth.shape, 3), np.uint8)
    kept = np.zeros(depth.shape)
    at = (row[seen], column[seen])
    registered[at], kept[at] = color[beside[seen], there[seen]], depth[at]
    T_scene_depth = np.asarray(T_scene_color, np.float64) @ T_color_depth
    return RgbdView(kept, registered, depth_intrinsics, T_scene_depth)


def _nearest(
    row: Shaped[np.ndarray, "points"],
    column: Shaped[np.ndarray, "points"],
    z: Float[np.ndarray, "points"],
    size: tuple[int, int],
    pixels: float,
) -> Float[np.ndarray, "height width"]:
    """The nearest depth around each colour pixel; a depth pixel covers `pixels` of them a side."""
    nearest = np.full(size, np.inf)
    np.minimum.at(nearest, (row, column), z)
    return minimum_filter(nearest, size=2 * int(np.ceil(pixels / 2.0)) + 1, mode="nearest")
