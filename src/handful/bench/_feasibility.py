"""Which proposed poses the robot may execute.

Reach and the hand are the simulator's business, as in the paper: joint angles for the whole motion,
and no collision of the open hand with table, support, target or, before the pick, the object. What
is held is known only by its cloud, and so its collisions are found between the two clouds.
"""

from __future__ import annotations

import numpy as np
import torch

from handful.bench._collision import SceneSurface, thinned_points
from handful.clouds import PointCloud
from handful.errors import GeometryError
from handful.geometry import check_pose
from handful.sim import Episode, Verdict
from handful.sim.objects import Pose

RISES = (0.03, 0.015, 0.0)
"""Metres above the place pose where the held cloud is checked: the way down."""
_OUT_OF_THE_WAY = 3.0
"""Metres above the scene: where the true object is put while only the hand is checked."""


class PickFeasibility:
    """Judges poses for a pick."""

    def __init__(self, episode: Episode) -> None:
        self._episode = episode

    def __call__(self, pose: Pose) -> Verdict:
        """Whether the pose can be executed; the reason is a kind, the same for like cases."""
        return self._episode.feasible(pose, "pick") if _is_pose(pose) else _NO_POSE


class PlaceFeasibility:
    """Judges poses for a place.

    Args:
        episode: For reach and the hand.
        scene: Scene cloud X.
        grasp: Grasp cloud Y: the hand and what it holds.
    """

    def __init__(self, episode: Episode, scene: PointCloud, grasp: PointCloud) -> None:
        self._episode = episode
        self._surface = SceneSurface(scene)
        self._held = thinned_points(grasp)

    def __call__(self, pose: Pose) -> Verdict:
        """Whether the pose can be executed; the reason is a kind, the same for like cases."""
        if not _is_pose(pose):
            return _NO_POSE
        away = np.eye(4)
        away[2, 3] = _OUT_OF_THE_WAY
        verdict = self._episode.can_place(pose, np.linalg.inv(pose) @ away)
        if not verdict:
            return verdict
        moved = self._held @ pose[:3, :3].T + pose[:3, 3]
        for rise in RISES:
            if self._surface.collides(moved + np.array([0.0, 0.0, rise])):
                return Verdict(False, "what is held would go through the scene")
        return Verdict(True)


_NO_POSE = Verdict(False, "not a pose")


def _is_pose(pose: Pose) -> bool:
    try:
        check_pose(torch.as_tensor(pose))
    except GeometryError:
        return False
    return True
