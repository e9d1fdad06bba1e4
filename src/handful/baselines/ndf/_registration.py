"""Where a known thing stands: registration of two clouds by a turn about z and a translation."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree

YAWS, ROUNDS = 18, 8
"""First of all: starts, and steps of each."""
MORE_ROUNDS = 30
"""Of the best of them."""
TRIMMED = 0.8
"""Share of the points with the nearest partners that count: cameras see other sides each time."""
MOST = 600
"""Points of each cloud that are used."""


def standing_pose(
    known: Float[np.ndarray, "known 3"], seen: Float[np.ndarray, "seen 3"]
) -> Float[np.ndarray, "4 4"]:
    """The motion that brings a known cloud onto a seen one: any yaw, any translation.

    Iterated closest points from many yaws; of the ends, the one counts at which both clouds are
    nearest to each other.

    Args:
        known: The cloud of the thing in its frame, metres.
        seen: What is seen of it now, and little else.
    """
    rng = np.random.default_rng(0)
    known, seen = (cloud[rng.permutation(len(cloud))[:MOST]].astype(np.float64)
                   for cloud in (known, seen))  # fmt: skip
    tree, middle = cKDTree(seen), seen.mean(axis=0)
    best, least = np.eye(4), np.inf
    for yaw in 2.0 * np.pi * np.arange(YAWS) / YAWS:
        pose = _planar(yaw, middle - _turn(yaw) @ known.mean(axis=0))
        for _ in range(ROUNDS):
            pose = _closer(pose, known, seen, tree)
        there = known @ pose[:3, :3].T + pose[:3, 3]
        apart = _trimmed(tree.query(there)[0]) + _trimmed(cKDTree(there).query(seen)[0])
        if apart < least:
            best, least = pose, apart
    for _ in range(MORE_ROUNDS):
        best = _closer(best, known, seen, tree)
    return best


def _closer(
    pose: Float[np.ndarray, "4 4"],
    known: Float[np.ndarray, "known 3"],
    seen: Float[np.ndarray, "seen 3"],
    tree: cKDTree,
) -> Float[np.ndarray, "4 4"]:
    """The best motion for pairs of nearest points."""
    away, partner = tree.query(known @ pose[:3, :3].T + pose[:3, 3])
    used = away <= np.quantile(away, TRIMMED)
    one, other = known[used], seen[partner[used]]
    first, second = one - one.mean(axis=0), other - other.mean(axis=0)
    sine = (first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]).sum()
    yaw = float(np.arctan2(sine, (first[:, :2] * second[:, :2]).sum()))
    return _planar(yaw, other.mean(axis=0) - _turn(yaw) @ one.mean(axis=0))


def _trimmed(distances: Float[np.ndarray, "n"]) -> float:
    return float(np.sort(distances)[: int(TRIMMED * len(distances))].mean())


def _turn(yaw: float) -> Float[np.ndarray, "3 3"]:
    c, s = np.cos(yaw), np.sin(yaw)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _planar(yaw: float, shift: Float[np.ndarray, "3"]) -> Float[np.ndarray, "4 4"]:
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = _turn(yaw), shift
    return pose
