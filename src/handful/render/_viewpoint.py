"""Where to look from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Shaped

from handful.clouds import Intrinsics
from handful.errors import OptionError
from handful.render._camera import Camera, look_at
from handful.render._raster import NEAR, DepthBuffer, draw_discs
from handful.render._splats import disc_radii

_TRIAL_HEIGHT = 56
"""Rows of the small image that a view is judged by."""

_VISIBLE_HEIGHT = 120
"""Rows of the image that decides which points are visible."""

_TRIAL_POINTS = 10000


def orbit(
    center: Shaped[np.ndarray, "3"],
    radius: float,
    intrinsics: Intrinsics,
    elevations: Sequence[float] = (0.42, 0.75),
    azimuths: int = 12,
    up: tuple[float, float, float] = (0.0, 0.0, 1.0),
) -> list[Camera]:
    """Cameras around a ball that just fits into their images.

    Args:
        center: Of the ball, in the scene, metres.
        radius: Of the ball, metres.
        intrinsics: Of every camera.
        elevations: Angles above the plane across `up`, radians.
        azimuths: How many directions, evenly spaced, per elevation.
        up: Upwards in the images; (0, 0, 1) or (0, 0, -1).
    """
    half = min(intrinsics.height / intrinsics.fy, intrinsics.width / intrinsics.fx) / 2.0
    distance = radius / np.sin(np.arctan(half))
    cameras = []
    for rise in elevations:
        for turn in 2.0 * np.pi * np.arange(azimuths) / azimuths:
            flat = np.cos(rise) * np.array([np.cos(turn), np.sin(turn), 0.0])
            eye = center + distance * (flat + np.sin(rise) * np.array(up))
            cameras.append(look_at(eye, center, intrinsics, up))
    return cameras


def framed(camera: Camera, points: Float[np.ndarray, "points 3"], margin: float = 0.04) -> Camera:
    """The camera moved, not turned, to where the points just fill its image.

    With the sides of the image at the slopes -a and b, the points x/z of a camera at (c, d) are
    inside if x - c <= b (z - d) and c - x <= a (z - d): the largest x - b z and -x - a z decide.

    Args:
        camera: Gives the direction of sight and the intrinsics.
        points: What should be seen, one or more, in the scene, metres.
        margin: Of the image left free on each side, as a share of its width and height.
    """
    view = camera.intrinsics
    local = points.astype(np.float64) @ camera.T_scene_camera[:3, :3]
    z = local[:, 2]
    sides = []
    for column, focal, middle, size in (
        (0, view.fx, view.cx, view.width),
        (1, view.fy, view.cy, view.height),
    ):
        free = margin * size - 0.5
        left, right = (middle - free) / focal, (size - 1 - middle - free) / focal
        low, high = (-local[:, column] - left * z).max(), (local[:, column] - right * z).max()
        sides.append((left, right, low, high))
    depth = min(-(low + high) / (left + right) for left, right, low, high in sides)
    depth = min(depth, z.min() - 2.0 * NEAR)
    x, y = ((high - low + (right - left) * depth) / 2 for left, right, low, high in sides)
    pose = camera.T_scene_camera.copy()
    pose[:3, 3] = pose[:3, :3] @ np.array([x, y, depth])
    return Camera(view, pose)


def best_view(
    points: Float[np.ndarray, "points 3"],
    interest: Float[np.ndarray, "points groups"],
    cameras: Sequence[Camera],
) -> Camera:
    """The camera that shows most of what is interesting, not hidden by other points.

    For each camera and group the interest of all visible pixels is summed. A camera's mark is the
    sum over groups of this, each as a share of what the best camera shows of the group.

    Args:
        points: Everything that can be seen or can hide something, in the scene, metres.
        interest: How interesting each point is, 0 or more, in one or more groups.
        cameras: The views to choose from.
    """
    if not cameras:
        raise OptionError("best_view needs at least one camera; got none.")
    step = -(-len(points) // _TRIAL_POINTS)
    kept, values = points[::step].astype(np.float64), interest[::step]
    radii = disc_radii(kept)
    shown = np.stack([_shown(kept, radii, values, camera) for camera in cameras])
    marks = (shown / np.maximum(shown.max(axis=0), 1e-12)).sum(axis=1)
    return cameras[int(marks.argmax())]


def visible_points(
    points: Float[np.ndarray, "points 3"], camera: Camera
) -> Bool[np.ndarray, "points"]:
    """Which points are in the image and not behind the surface that the others make up."""
    places, radii = camera.to_camera(points.astype(np.float64)), disc_radii(points)
    buffer = DepthBuffer(_shrunk(camera.intrinsics, _VISIBLE_HEIGHT))
    draw_discs(buffer, places, radii)
    view, z = buffer.intrinsics, places[:, 2]
    front = z > NEAR
    safe = np.where(front, z, 1.0)
    column = np.rint(view.fx * places[:, 0] / safe + view.cx)
    row = np.rint(view.fy * places[:, 1] / safe + view.cy)
    inside = front & (column >= 0) & (column < view.width) & (row >= 0) & (row < view.height)
    nearest = np.zeros(len(points))
    nearest[inside] = buffer.depth()[row[inside].astype(int), column[inside].astype(int)]
    return inside & (z <= nearest + 2.0 * radii)


def _shown(
    points: Float[np.ndarray, "points 3"],
    radii: Float[np.ndarray, "points"],
    interest: Float[np.ndarray, "points groups"],
    camera: Camera,
) -> Float[np.ndarray, "groups"]:
    buffer = DepthBuffer(_shrunk(camera.intrinsics, _TRIAL_HEIGHT))
    draw_discs(buffer, camera.to_camera(points), radii)
    return interest[buffer.owner[buffer.covered]].sum(axis=0)


def _shrunk(view: Intrinsics, height: int) -> Intrinsics:
    """The same view with `height` rows."""
    scale = height / view.height
    return Intrinsics(
        view.fx * scale,
        view.fy * scale,
        view.cx * scale,
        view.cy * scale,
        max(1, round(view.width * scale)),
        height,
    )
