"""Contact frames on rims, handles and necks, in the frame of the thing.

Grasps are poses T_item_contact of the canonical contact frame (x opening axis, z approach): any
gripper can take them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from handful.sim._hand import TIP_BEYOND_CONTACT
from handful.sim.objects import Handle, Neck, Pose, Rim

Vector = Float[np.ndarray, "3"]


def rim_grasps(rim: Rim, rng: np.random.Generator, low_variance: bool = False) -> Iterator[Pose]:
    """Astride the wall, anywhere around and either way round; endless.

    Args:
        rim: Where.
        rng: For the choices.
        low_variance: Always near the middle of the samples, one way round, one depth.
    """
    while True:
        if low_variance:
            at = int(np.clip(round(rng.normal(len(rim.points) / 2, 1.0)), 0, len(rim.points) - 1))
            flip, lean, depth = 1.0, rng.normal(0.0, 0.02), rim.depth
        else:
            at = int(rng.integers(len(rim.points)))
            flip = float(rng.choice([-1.0, 1.0]))
            lean = rng.uniform(-0.18, 0.18)
            depth = rim.depth * rng.uniform(0.8, 1.1)
        down, across = rim.down[at], flip * rim.outward[at]
        side = np.cross(down, across)
        # Leaning in the plane of the wall keeps the wall between the fingers.
        approach = np.cos(lean) * down + np.sin(lean) * side
        yield contact_at(rim.points[at] + depth * down, approach, across)


def handle_grasps(handle: Handle, rng: np.random.Generator) -> Iterator[Pose]:
    """The bar between the fingers, from outside; shallow, so that the hole stays free; endless."""
    while True:
        flip = float(rng.choice([-1.0, 1.0]))
        lean = rng.uniform(-0.35, 0.35)
        across = flip * handle.axis
        side = np.cross(handle.outward, across)
        approach = -np.cos(lean) * handle.outward + np.sin(lean) * side
        yield contact_at(handle.grip + 0.006 * approach, approach, across)


def neck_grasps(neck: Neck, rng: np.random.Generator) -> Iterator[Pose]:
    """From above, the neck or cap between the fingers, any way round; endless."""
    while True:
        yaw = rng.uniform(-np.pi, np.pi)
        lean, toward = rng.uniform(0.0, 0.08), rng.uniform(-np.pi, np.pi)
        depth = neck.length * rng.uniform(0.85, 1.0)
        approach = np.array(
            [np.sin(lean) * np.cos(toward), np.sin(lean) * np.sin(toward), -np.cos(lean)]
        )
        across = np.array([np.cos(yaw), np.sin(yaw), 0.0])
        yield contact_at(np.array([*neck.center, neck.top - depth]), approach, across)


def contact_at(tips: Vector, approach: Vector, across: Vector) -> Pose:
    """The contact frame of a gripper with its finger tips around a point.

    Args:
        tips: Between the finger tips, metres.
        approach: Direction of the z axis.
        across: Direction of the x axis, along which the fingers open; made square to `approach`.
    """
    z = approach / np.linalg.norm(approach)
    x = across - (across @ z) * z
    x /= np.linalg.norm(x)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([x, np.cross(z, x), z], axis=1)
    pose[:3, 3] = tips - TIP_BEYOND_CONTACT * z
    return pose
