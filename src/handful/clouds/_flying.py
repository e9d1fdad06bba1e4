"""Flying pixels: depths between an edge and what is behind it, where nothing is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from handful.clouds._rgbd import RgbdView

STEEP = 4.0
"""Depth from one pixel to the next, as a multiple of the pixel's width, that a surface may have:
one that is seen at an angle of 14 degrees has it."""
NOISE = 0.006
"""Depth that noise adds to that at one metre, metres; it grows with the square of the distance."""
FEWEST = 3
"""Of the eight pixels around one, those that must be as deep. The corner of a box has three, and a
pixel in a line of flying ones, which are alike along an edge at most, has two."""

_AROUND = tuple((down, right) for down in range(3) for right in range(3) if (down, right) != (1, 1))


def without_flying_pixels(view: RgbdView) -> RgbdView:
    """The view without the pixels that are as deep as hardly any pixel around them.

    Stereo and time-of-flight cameras mix both sides of an edge. These pixels hang in the air and
    look like walls. Wires that are one pixel wide, and surfaces seen at less than 14 degrees, go
    with them.
    """
    depth = view.metres
    flying = ~supported(depth, (view.intrinsics.fx + view.intrinsics.fy) / 2.0)
    return replace(view, depth=np.where(flying, np.zeros((), view.depth.dtype), view.depth))


def supported(depth: Float[np.ndarray, "height width"], focal: float) -> Bool[np.ndarray, "h w"]:
    """Which pixels have `FEWEST` neighbours on the same surface.

    Args:
        depth: Metres; what is not a positive number was not seen.
        focal: Focal length, pixels.
    """
    seen = np.isfinite(depth) & (depth > 0)
    metres = np.where(seen, depth, 0.0)
    tolerance = STEEP * metres / focal + NOISE * metres**2
    padded = np.pad(np.where(seen, depth, np.inf), 1, constant_values=np.inf)
    height, width = depth.shape
    count = np.zeros(depth.shape, dtype=np.int64)
    for down, right in _AROUND:
        count += np.abs(padded[down : down + height, right : right + width] - metres) <= tolerance
    return seen & (count >= FEWEST)
