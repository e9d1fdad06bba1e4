"""Perturbed poses: beside a good one that is just out of reach, or that touches something."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from handful.demos import Gripper

FARTHEST = 0.015
"""Largest distance by which the contact point is moved, metres."""
STEEPEST = 0.25
"""Largest angle by which the hand is turned, radians."""


def perturbed(
    T_scene_gripper: Float[np.ndarray, "poses 4 4"],
    count: int,
    gripper: Gripper,
    rng: np.random.Generator,
) -> Float[np.ndarray, "count 4 4"]:
    """Poses like given ones, each moved and turned a little about the contact point.

    Lengths and angles are drawn evenly from zero to the largest.

    Args:
        T_scene_gripper: The poses; they are perturbed in turn.
        count: How many to make.
        gripper: What they are poses of.
        rng: Source of randomness.
    """
    result = T_scene_gripper[np.arange(count) % len(T_scene_gripper)]
    contact = gripper.T_gripper_contact[:3, 3]
    spots = result[:, :3, :3] @ contact + result[:, :3, 3]
    turns = Rotation.from_rotvec(_in_ball(count, STEEPEST, rng)).as_matrix()
    result[:, :3, :3] = turns @ result[:, :3, :3]
    moved = spots + _in_ball(count, FARTHEST, rng)
    result[:, :3, 3] = moved - result[:, :3, :3] @ contact
    return result


def _in_ball(count: int, radius: float, rng: np.random.Generator) -> Float[np.ndarray, "count 3"]:
    """Vectors in all directions, with evenly spread lengths up to a radius."""
    direction = rng.normal(size=(count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return direction * rng.uniform(0.0, radius, (count, 1))
