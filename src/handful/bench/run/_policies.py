"""Where poses come from: trained models, and two yardsticks, the oracle and chance.

Every policy gives a predictor for each step of the task, so that other methods can be judged in the
same way.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from handful.bench._errors import BenchError
from handful.bench.run._hands import present_description
from handful.clouds import PointCloud
from handful.demos import Gripper, Task
from handful.errors import OptionError, unknown_name_message
from handful.learning import RunFolder
from handful.policy import (
    PosePredictor,
    Predictor,
    RankedPoses,
    ToldPredictor,
    TrainedPredictor,
)
from handful.sim import Episode, oracle_predictors, true_segments, unsegmented

PolicyMaker = Callable[[Episode], Mapping[str, PosePredictor]]
"""Makes the predictors for an episode, by the name of the step. Only the oracle looks into it, and
what tells models which points are whose."""

_ABOVE_TABLE = 0.01
"""Metres: points of the scene higher than this are worth going to."""


def policy_maker(
    name: str, run: Path, task: Task, hand: Gripper, segmented: bool = True
) -> PolicyMaker:
    """The policy of a name.

    Args:
        name: `model` (the trained models of a run), `oracle` (sees the true state: what the
            simulated world allows) or `random` (what chance gives).
        run: Folder of the run; only `model` reads it.
        task: The steps.
        hand: What the robot carries; trained models are retargeted to it.
        segmented: Tell models that have to be told which points are the object's.

    Raises:
        OptionError: There is no policy of that name.
        BenchError: The run lacks a model.
    """
    check_policy(name, run, task)
    if name == "model":
        predictors = trained_predictors(run, task, hand)
        tell = true_segments if segmented else unsegmented
        return lambda episode: {
            name: one.told(partial(tell, episode, one.step))
            if isinstance(one, ToldPredictor)
            else one
            for name, one in predictors.items()
        }
    if name == "oracle":
        return oracle_predictors
    return _random_predictors


def check_policy(name: str, run: Path, task: Task) -> None:
    """Refuse an unknown policy, or a run without the models it needs, before any work is done.

    Raises:
        OptionError: There is no policy of that name.
        BenchError: The run lacks a model; the message says of which step, and how to train it.
    """
    if name not in POLICIES:
        raise OptionError(unknown_name_message("policy", name, POLICIES))
    if name == "model":
        missing = what_is_missing(run, task)
        if missing:
            raise BenchError(missing)


POLICIES = ("model", "oracle", "random")


def what_is_missing(run: Path, task: Task) -> str:
    """A sentence that says for which steps a run has no model, and how to train one.

    Empty if there is a model for each step.
    """
    folder = RunFolder(run)
    missing = [step.name for step in task if not folder.model(step.name).is_dir()]
    if not missing:
        return ""
    words = ["handful", "train", _demonstrations(run), "--out", str(run)]
    if len(missing) < len(task):
        words += ["--step", missing[0]]
    what, them = ("step", "it") if len(missing) == 1 else ("steps", "them")
    names = " and ".join(repr(name) for name in missing)
    return f"{run}: has no trained model for the {what} {names}; train {them}: {shlex.join(words)}"


def trained_predictors(run: Path, task: Task, hand: Gripper) -> dict[str, TrainedPredictor]:
    """The trained models of a run, by the name of the step, for a hand.

    Raises:
        BenchError: A model is for another action than its step.
    """
    predictors: dict[str, TrainedPredictor] = {}
    for step in task:
        one = RunFolder(run).predictor(step.name)
        if one.step.action is not step.action:
            raise BenchError(
                f"{run}: the model of the step {step.name!r} is for the action "
                f"{one.step.action.value!r}: need {step.action.value!r}; train it on "
                "demonstrations of this task."
            )
        if isinstance(one, Predictor):  # perhaps of version 1
            one = replace(one, trained_gripper=present_description(one.trained_gripper))
        predictors[step.name] = one.for_gripper(hand)
    return predictors


def _demonstrations(run: Path) -> str:
    """Folder of the demonstrations that the other models of a run were trained on, if known."""
    return RunFolder(run).summary().demonstrations.folder or "DEMOS"


def _random_predictors(episode: Episode) -> dict[str, PosePredictor]:
    return {step.name: RandomPredictor(episode.gripper) for step in episode.task.task}


@dataclass(frozen=True)
class RandomPredictor:
    """Gripper poses with any orientation and the contact point at a random point of the scene."""

    gripper: Gripper

    def sample(
        self, scene: PointCloud, grasp: PointCloud | None = None, n: int = 100, seed: int = 0
    ) -> RankedPoses:
        """Poses at random, all with the same energy.

        Args:
            scene: Scene cloud X.
            grasp: Not looked at.
            n: How many.
            seed: The same seed gives the same poses.
        """
        start = time.perf_counter()
        rng = np.random.default_rng(seed)
        above = scene.points[scene.points[:, 2] > _ABOVE_TABLE]
        spots = above if len(above) else scene.points
        T_scene_contact = np.tile(np.eye(4), (n, 1, 1))
        T_scene_contact[:, :3, :3] = Rotation.random(n, rng=rng).as_matrix()
        T_scene_contact[:, :3, 3] = spots[rng.integers(len(spots), size=n)]
        T_scene_gripper = T_scene_contact @ np.linalg.inv(self.gripper.T_gripper_contact)
        return self._ranked(T_scene_gripper, time.perf_counter() - start)

    def _ranked(
        self, T_scene_gripper: Float[np.ndarray, "poses 4 4"], seconds: float
    ) -> RankedPoses:
        count = len(T_scene_gripper)
        return RankedPoses(T_scene_gripper, np.zeros(count), np.ones(count), seconds, self.gripper)
