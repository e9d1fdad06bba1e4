"""Where a known thing stands: registration of two clouds by a turn about z and a translation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree

YAWS, ROUNDS, SOME = 24, 6, 400
"""First of all: starts, steps of each, and points of each cloud."""
MORE_ROUNDS, MOST = 40, 3000
"""Of the best of them. With few points, nearest ones hold a turn back."""
FAR, NEAR = 0.03, 0.01
"""Metres: partners farther apart than that are none, first of all and in the end. Cameras see other
sides each time, and what only one cloud shows must not pull."""


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two clouds that are brought onto each other, and where to look for nearest points."""

    known: Float[np.ndarray, "known 3"]
    seen: Float[np.ndarray, "seen 3"]
    known_tree: cKDTree
    seen_tree: cKDTree

    def partners(
        self, pose: Float[np.ndarray, "4 4"]
    ) -> tuple[Float[np.ndarray, "n 3"], Float[np.ndarray, "n 3"], Float[np.ndarray, "n"]]:
        """Points of the known cloud, nearest points of the seen one, and how far apart they are.

        Both clouds look for partners: a thin part that is in the wrong place is near something in
        one direction, but hardly ever in both.
        """
        rotation, shift = pose[:3, :3], pose[:3, 3]
        away, partner = self.seen_tree.query(self.known @ rotation.T + shift)
        back, other = self.known_tree.query((self.seen - shift) @ rotation)
        known = np.concatenate([self.known, self.known[other]])
        seen = np.concatenate([self.seen[partner], self.seen])
        return known, seen, np.concatenate([away, back])


def standing_pose(
    known: Float[np.ndarray, "known 3"], seen: Float[np.ndarray, "seen 3"]
) -> Float[np.ndarray, "4 4"]:
    """The motion that brings a known cloud onto a seen one: any yaw, any translation.

    Iterated closest points from many yaws. Of the ends, the one counts at which the points of both
    clouds are nearest to the other cloud on average; distances are cut off at `FAR`. No share of
    the points is left out: the arm of a hanger is a tenth of it, and all that tells its yaw.

    Args:
        known: The cloud of the thing in its frame, metres.
        seen: What is seen of it now, and little else.
    """
    pair, best, least = _pair(known, seen, SOME), np.eye(4), np.inf
    middle = pair.seen.mean(axis=0)
    for yaw in 2.0 * np.pi * np.arange(YAWS) / YAWS:
        pose = _planar(yaw, middle - _turn(yaw) @ pair.known.mean(axis=0))
        for _ in range(ROUNDS):
            pose = _closer(pose, pair, FAR)
        apart = float(np.minimum(pair.partners(pose)[2], FAR).mean())
        if apart < least:
            best, least = pose, apart
    pair = _pair(known, seen, MOST)
    for reach in np.geomspace(FAR, NEAR, MORE_ROUNDS):
        best = _closer(best, pair, float(reach))
    return best


def _pair(
    known: Float[np.ndarray, "known 3"], seen: Float[np.ndarray, "seen 3"], most: int
) -> _Pair:
    """Some points of each cloud."""
    rng = np.random.default_rng(0)
    one, other = (cloud[rng.permutation(len(cloud))[:most]].astype(np.float64)
                  for cloud in (known, seen))  # fmt: skip
    return _Pair(one, other, cKDTree(one), cKDTree(other))


def _closer(pose: Float[np.ndarray, "4 4"], pair: _Pair, reach: float) -> Float[np.ndarray, "4 4"]:
    """The best motion for pairs of nearest points that are within reach of each other."""
    known, seen, away = pair.partners(pose)
    used = away <= reach
    if used.sum() < 3:  # nothing is within reach: those that are nearest
        used = away <= np.quantile(away, 0.5)
    one, other = known[used], seen[used]
    first, second = one - one.mean(axis=0), other - other.mean(axis=0)
    sine = (first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]).sum()
    yaw = float(np.arctan2(sine, (first[:, :2] * second[:, :2]).sum()))
    return _planar(yaw, other.mean(axis=0) - _turn(yaw) @ one.mean(axis=0))


def _turn(yaw: float) -> Float[np.ndarray, "3 3"]:
    c, s = np.cos(yaw), np.sin(yaw)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _planar(yaw: float, shift: Float[np.ndarray, "3"]) -> Float[np.ndarray, "4 4"]:
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = _turn(yaw), shift
    return pose
