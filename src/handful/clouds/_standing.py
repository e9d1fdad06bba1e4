"""What stands in a box of a scene, told from the points alone."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from handful.clouds._cloud import Box

GROUND = 0.006
"""Metres above the lowest points of a box that belong to what the rest stands on."""
_LOWEST = 1.0
"""Percent of the points in a box that may be noise below what the rest stands on."""


def standing_in(box: Box, points: Float[np.ndarray, "points 3"]) -> Bool[np.ndarray, "points"]:
    """Which points stand in a box: all inside, but for the lowest layer, on which the others stand.

    Args:
        box: Around a thing and a piece of what it stands on.
        points: Of the scene, z up, metres.
    """
    inside = box.contains(points)
    if not inside.any():
        return inside
    ground = float(np.percentile(points[inside][:, 2], _LOWEST))
    return inside & (points[:, 2] > ground + GROUND)
