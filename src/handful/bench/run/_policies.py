"""Where poses come from: trained models, and two yardsticks, the oracle and chance.

All are behind one small interface, so that other methods can be judged in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.spatial.transform import Rotation

from handful.bench._errors import BenchError
from handful.clouds import PointCloud
from handful.errors import OptionError, unknown_name_message
from handful.learning import RankedPoses, load_model
from handful.sim import Episode

STEPS = ("pick", "place")


@runtime_checkable
class PoseModel(Protocol):
    """Anything that proposes gripper poses for what is seen."""

    def sample(
        self, scene: PointCloud, grasp: PointCloud | None = None, n: int = 100, seed: int = 0
    ) -> RankedPoses:
        """At most `n` poses, the best first.

        Args:
            scene: Scene cloud X.
            grasp: Grasp cloud Y, for the place.
            n: How many at most.
            seed: The same seed gives the same poses.
        """


@runtime_checkable
class RatingModel(PoseModel, Protocol):
    """One that also says what it thinks of poses from elsewhere."""

    def rate(
        self, poses: np.ndarray, scene: PointCloud, grasp: PointCloud | None = None
    ) -> RankedPoses:
        """The poses T_scene_gripper, the best first."""


@dataclass(frozen=True)
class Policy:
    """A model for each step."""

    pick: PoseModel
    place: PoseModel


PolicyMaker = Callable[[Episode], Policy]
"""Makes the policy for an episode. Only the oracle looks at the episode."""


def policy_maker(name: str, run: Path) -> PolicyMaker:
    """The policies of a name.

    Args:
        name: `model` (trained, from the folders `pick` and `place` of a run), `oracle` (sees the
            true state: what the simulated world allows) or `random` (what chance does).
        run: Folder of the run; only `model` reads it.

    Raises:
        OptionError: There is no policy of that name.
        BenchError: The run has no trained models.
    """
    check_policy(name, run)
    return _MAKERS[name](run)


def check_policy(name: str, run: Path) -> None:
    """Refuse an unknown policy, or a run without the models it needs, before any work is done."""
    if name not in _MAKERS:
        raise OptionError(unknown_name_message("policy", name, _MAKERS))
    missing = [step for step in STEPS if not (run / step).is_dir()]
    if name == "model" and missing:
        raise BenchError(
            f"{run}: has no trained {' and no trained '.join(missing)} model; train there first: "
            f"handful train DEMOS --out {run}"
        )


def _model_policy(run: Path) -> PolicyMaker:
    models = {step: load_model(run / step) for step in STEPS}
    for step, model in models.items():
        if model.kind != step:
            raise BenchError(f"{run / step}: is a {model.kind} model: need a {step} model.")
    policy = Policy(models["pick"], models["place"])
    return lambda episode: policy


def _oracle_policy(episode: Episode) -> Policy:
    return Policy(_Oracle(episode, "pick"), _Oracle(episode, "place"))


def _random_policy(episode: Episode) -> Policy:
    return Policy(_Chance(), _Chance())


@dataclass(frozen=True, eq=False)
class _Oracle:
    """The task's oracle, which looks into the simulated world."""

    episode: Episode
    step: str

    def sample(
        self, scene: PointCloud, grasp: PointCloud | None = None, n: int = 100, seed: int = 0
    ) -> RankedPoses:
        """One pose, or none."""
        start = time.perf_counter()
        task = self.episode.task
        find = task.oracle_pick if self.step == "pick" else task.oracle_place
        pose = find(self.episode)
        return _ranked(np.zeros((0, 4, 4)) if pose is None else pose[None], start)


@dataclass(frozen=True)
class _Chance:
    """Any way round, with the finger tips at some point of the scene."""

    tip: float = 0.13

    def sample(
        self, scene: PointCloud, grasp: PointCloud | None = None, n: int = 100, seed: int = 0
    ) -> RankedPoses:
        """Poses without reason."""
        start = time.perf_counter()
        rng = np.random.default_rng(seed)
        above = scene.points[scene.points[:, 2] > 0.01]
        spots = above if len(above) else scene.points
        poses = np.tile(np.eye(4), (n, 1, 1))
        poses[:, :3, :3] = Rotation.random(n, rng=rng).as_matrix()
        poses[:, :3, 3] = spots[rng.integers(len(spots), size=n)] - self.tip * poses[:, :3, 2]
        return _ranked(poses, start)


def _ranked(poses: np.ndarray, start: float) -> RankedPoses:
    count = len(poses)
    return RankedPoses(poses, np.zeros(count), np.ones(count), time.perf_counter() - start)


_MAKERS: dict[str, Callable[[Path], PolicyMaker]] = {
    "model": _model_policy,
    "oracle": lambda run: _oracle_policy,
    "random": lambda run: _random_policy,
}
