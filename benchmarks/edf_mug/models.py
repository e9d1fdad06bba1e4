"""What is evaluated. `HandfulModel` is the only place that knows how handful trains and samples."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from scipy.spatial.transform import Rotation

from edf_mug.cylinders import Array
from edf_mug.hand import T_gripper_tips, in_another_frame
from edf_mug.variants import TestScene
from handful.demos import DemoSet, Gripper, Step
from handful.learning import recipe_for, train
from handful.policy import load_predictor, save_predictor


@dataclass(frozen=True, eq=False)
class Answer:
    """What a model says to a scene: poses [n, 4, 4], the best first; or none."""

    T_scene_gripper: Array
    energy: float
    confidence: float
    seconds: float


@dataclass(frozen=True)
class Training:
    """What training took: wall-clock seconds and the process' highest memory so far in GiB."""

    seconds: float
    peak_gib: float


class Model(Protocol):
    """A trained model for one step."""

    training: Training | None

    def answer(self, test: TestScene, shown: Step, count: int) -> Answer:
        """`count` poses; `shown` is the left-out demonstration's step, which no model may use."""
        ...


class HandfulModel:
    """A predictor that `handful` trains, or one that it trained before and stored in `folder`."""

    training: Training | None

    def __init__(
        self, step: str, demos: DemoSet, seed: int, folder: Path, train_steps: int | None = None
    ) -> None:
        self.training = None
        if folder.exists():
            self._predictor = load_predictor(folder)
            return
        start = time.perf_counter()
        self._predictor = train(demos, recipe_for(demos, step, seed=seed, steps=train_steps))
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        self.training = Training(seconds, peak)
        folder.parent.mkdir(parents=True, exist_ok=True)
        save_predictor(self._predictor, folder)

    def answer(self, test: TestScene, shown: Step, count: int) -> Answer:
        """The predictor's own samples.

        A variant that moves the grasp cloud moves the hand in it, too: the hand's frame is
        elsewhere, and the predictor is told where.
        """
        predictor, grasp = self._predictor, None
        if predictor.step.action.holding:
            grasp = test.grasp
            moved = in_another_frame(predictor.trained_gripper, test.grasp_motion)
            predictor = predictor.for_gripper(moved)
        found = predictor.sample(test.scene, grasp, n=count)
        energy, confidence = float("inf"), 0.0
        if len(found):
            energy, confidence = float(found.energy[0]), float(found.confidence[0])
        return Answer(found.T_scene_gripper, energy, confidence, found.seconds)


class TruthModel:
    """Gives the demonstrated pose: what the judge must pass, whatever the variant."""

    training = None

    def answer(self, test: TestScene, shown: Step, count: int) -> Answer:
        """The demonstrated pose, carried along with target and grasp cloud."""
        T_scene_gripper = test.carried(shown.targets[0])
        return Answer(T_scene_gripper[None], 0.0, float(test.has_target), 0.0)


class RandomModel:
    """Gives random poses near random points of the scene: what the judge must fail."""

    training = None

    def __init__(self, seed: int, gripper: Gripper) -> None:
        self._rng = np.random.default_rng(seed)
        self._T_tips_gripper = np.linalg.inv(T_gripper_tips(gripper))

    def answer(self, test: TestScene, shown: Step, count: int) -> Answer:
        """Random rotations; finger tips within 3 cm of points."""
        T_scene_tips = np.tile(np.eye(4), (count, 1, 1))
        T_scene_tips[:, :3, :3] = Rotation.random(count, random_state=self._rng).as_matrix()
        chosen = test.scene.points[self._rng.integers(len(test.scene), size=count)]
        T_scene_tips[:, :3, 3] = chosen + self._rng.normal(size=(count, 3)) * 0.03
        return Answer(T_scene_tips @ self._T_tips_gripper, 0.0, self._rng.random(), 0.0)


MODELS = ("handful", "truth", "random")
"""What `make_model` makes."""


def make_model(
    name: str,
    step: str,
    demos: DemoSet,
    seed: int,
    folder: Path,
    train_steps: int | None = None,
) -> Model:
    """The model of that name for one step, trained on `demos` where it learns at all.

    Args:
        name: One of `MODELS`.
        step: Name of the step.
        demos: What it learns from.
        seed: The same seed gives the same model.
        folder: Where a trained model is stored.
        train_steps: Optimiser steps, instead of the recipe's.
    """
    if name == "handful":
        return HandfulModel(step, demos, seed, folder, train_steps)
    if name not in MODELS:
        raise ValueError(f"model {name!r}: need one of {MODELS}.")
    return TruthModel() if name == "truth" else RandomModel(seed, demos.gripper)
