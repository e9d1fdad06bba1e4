"""Poses beside good ones, for where a good one is just out of reach or touches something."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

FARTHEST = 0.015
"""Most that a nudge moves the finger tips, metres."""
STEEPEST = 0.25
"""Most that it turns the hand, radians."""


def nudged(
    poses: Float[np.ndarray, "poses 4 4"], count: int, tip: float, rng: np.random.Generator
) -> Float[np.ndarray, "count 4 4"]:
    """Poses like some that are there, moved and turned a little about the finger tips.

    Nudges of all sizes up to the largest are about equally frequent.

    Args:
        poses: T_scene_gripper; nudged in turn.
        count: How many to make.
        tip: Distance of the finger tips from the gripper's origin, metres.
        rng: Source of randomness.
    """
    result = poses[np.arange(count) % len(poses)]
    tips = result[:, :3, 3] + tip * result[:, :3, 2]
    turns = Rotation.from_rotvec(_in_ball(count, STEEPEST, rng)).as_matrix()
    result[:, :3, :3] = turns @ result[:, :3, :3]
    result[:, :3, 3] = tips + _in_ball(count, FARTHEST, rng) - tip * result[:, :3, 2]
    return result


def _in_ball(count: int, radius: float, rng: np.random.Generator) -> Float[np.ndarray, "count 3"]:
    """Vectors in all directions, with evenly spread lengths up to a radius."""
    direction = rng.normal(size=(count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return direction * rng.uniform(0.0, radius, (count, 1))
