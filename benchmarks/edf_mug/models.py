"""What is evaluated. `HandfulModel` is the only place that knows how handful trains and samples."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from scipy.spatial.transform import Rotation

import handful
from edf_mug.cylinders import Array
from edf_mug.variants import TestScene
from handful.demos import DemoSet, Step


@dataclass(frozen=True, eq=False)
class Answer:
    """What a model says to a scene: poses T_scene_gripper [n, 4, 4], the best first; or none."""

    poses: Array
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
    """A model that `handful` trains, or one that it trained before and stored in `folder`."""

    training: Training | None

    def __init__(self, step: str, demos: DemoSet, seed: int, folder: Path) -> None:
        self.training = None
        if folder.exists():
            self._model = handful.load_model(folder)
            return
        start = time.perf_counter()
        train = getattr(handful, f"train_{step}", None)
        if train is None:
            raise SystemExit(
                f"handful.train_{step} is not built yet: use --model truth or --model random."
            )
        self._model = train(demos, seed=seed)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        self.training = Training(seconds, peak)
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._model.save(folder)

    def answer(self, test: TestScene, shown: Step, count: int) -> Answer:
        """The model's own samples."""
        clouds = (test.scene,) if test.step == "pick" else (test.scene, test.grasp)
        start = time.perf_counter()
        samples = self._model.sample(*clouds, n=count)
        seconds = time.perf_counter() - start
        poses = np.asarray(samples.T_scene_gripper, dtype=np.float64)
        energy = float(np.ravel(samples.energy)[0]) if len(poses) else float("inf")
        confidence = float(np.ravel(samples.confidence)[0]) if len(poses) else 0.0
        return Answer(poses, energy, confidence, seconds)


class TruthModel:
    """Gives the demonstrated pose: what the judge must pass, whatever the variant."""

    training = None

    def answer(self, test: TestScene, shown: Step, count: int) -> Answer:
        """The demonstrated pose, carried along with target and grasp cloud."""
        pose = test.carried(shown.targets[0])
        return Answer(pose[None], 0.0, float(test.has_target), 0.0)


class RandomModel:
    """Gives random poses near random points of the scene: what the judge must fail."""

    training = None

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def answer(self, test: TestScene, shown: Step, count: int) -> Answer:
        """Random rotations; finger tips within 3 cm of points."""
        poses = np.tile(np.eye(4), (count, 1, 1))
        poses[:, :3, :3] = Rotation.random(count, random_state=self._rng).as_matrix()
        chosen = test.scene.points[self._rng.integers(len(test.scene), size=count)]
        tips = chosen + self._rng.normal(size=(count, 3)) * 0.03
        poses[:, :3, 3] = tips - 0.15 * poses[:, :3, 2]
        return Answer(poses, 0.0, self._rng.random(), 0.0)


MODELS = ("handful", "truth", "random")
"""What `make_model` makes."""


def make_model(name: str, step: str, demos: DemoSet, seed: int, folder: Path) -> Model:
    """The model of that name for one step, trained on `demos` where it learns at all."""
    if name == "handful":
        return HandfulModel(step, demos, seed, folder)
    if name not in MODELS:
        raise ValueError(f"model {name!r}: need one of {MODELS}.")
    return TruthModel() if name == "truth" else RandomModel(seed)
