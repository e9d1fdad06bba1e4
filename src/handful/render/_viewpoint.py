"""Where to look from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Shaped

from handful.clouds import Intrinsics
from handful.errors import OptionError
from handful.render._camera import Camera, look_at
from handful.render._raster import DepthBuffer, draw_discs
from handful.render._splats import disc_radii

_TRIAL_HEIGHT = 56
"""Rows of the small image that a view is judged by."""

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


def _shown(
    points: Float[np.ndarray, "points 3"],
    radii: Float[np.ndarray, "points"],
    interest: Float[np.ndarray, "points groups"],
    camera: Camera,
) -> Float[np.ndarray, "groups"]:
    view = camera.intrinsics
    scale = _TRIAL_HEIGHT / view.height
    small = Intrinsics(
        view.fx * scale,
        view.fy * scale,
        view.cx * scale,
        view.cy * scale,
        max(1, round(view.width * scale)),
        _TRIAL_HEIGHT,
    )
    buffer = DepthBuffer(small)
    draw_discs(buffer, camera.to_camera(points), radii)
    return interest[buffer.owner[buffer.covered]].sum(axis=0)
