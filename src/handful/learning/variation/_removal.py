"""Scenes without their target, from which confidence learns what its absence looks like."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from handful.clouds import PointCloud, concatenate

CUT_OUT = (0.14, 0.17, 0.20)
"""Metres: radii of the balls that take a target out of a scene, one of them drawn each time."""


def without_target(
    scene: PointCloud,
    focus: Float[np.ndarray, "3"],
    rng: np.random.Generator,
    replaced: bool,
) -> PointCloud | None:
    """The scene with a ball about the focus cut out; None when too little is left.

    Args:
        scene: With the target.
        focus: Where the gripper went, scene frame, metres.
        rng: Source of randomness.
        replaced: Put a block or a ball of the target's colours in its place.
    """
    radius = CUT_OUT[int(rng.integers(len(CUT_OUT)))]
    inside = np.linalg.norm(scene.points - focus, axis=1) <= radius
    if (~inside).sum() < 100 or not inside.any():
        return None
    rest = scene.selected(~inside)
    if not replaced:
        return rest
    taken = scene.selected(inside)
    return concatenate([rest, _something_else(taken, rng)])


def _something_else(taken: PointCloud, rng: np.random.Generator) -> PointCloud:
    """The surface of a block or an ellipsoid about where the points were, in their colours."""
    count = len(taken)
    half = rng.uniform(0.015, 0.05, 3)
    direction = rng.normal(size=(count, 3))
    if rng.uniform() < 0.5:
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    else:
        direction /= np.abs(direction).max(axis=1, keepdims=True)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    points = taken.points.mean(axis=0) + (direction * half) @ turn.T
    colors = None
    if taken.has_colors:
        colors = taken.require_colors()[rng.integers(count, size=count)]
    return PointCloud(points.astype(np.float32), colors)
