"""Neural Descriptor Fields as a method: pre-training, then a look at the demonstrations."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from scipy.spatial import cKDTree

from handful.baselines.ndf._config import NdfConfig, NetworkConfig, PoseSearch
from handful.baselines.ndf._demonstrated import object_in, target_poses
from handful.baselines.ndf._model import NdfModel
from handful.baselines.ndf._network import NdfNetwork
from handful.baselines.ndf._predictor import NdfPredictor, learn_poses
from handful.baselines.ndf._pretraining import OccupancyObjective, ShapeBank
from handful.baselines.ndf._trainer import PreTrainer
from handful.clouds import PointCloud, voxel_filter
from handful.demos import DemoSet, TaskStep
from handful.errors import FileFormatError
from handful.learning import (
    Method,
    MethodOptions,
    Schedule,
    StoredModel,
    TrainingConfig,
    read_parts,
    read_weights,
    save_parts,
)

NAME = "ndf"
ABOUT_CONTACT = 0.025
"""Metres: query points of an empty gripper are this far from its contact (standard deviation)."""
ABOUT_TARGET = 0.01
"""Metres: those of a full one are this far from points of the target."""
CODE = 2
"""Of pre-training: higher whenever the same recipe leads to another network than before."""
NEAR_OBJECT = 0.04
"""Metres between the placed object and the points of the target that count."""


@dataclass(frozen=True)
class NdfRecipe:
    """All that training the model of one step needs besides demonstrations.

    Attributes:
        method: Name of the method.
        step: Name and action of the step.
        model: Configuration of the model.
        objective: What pre-training lowers.
        shapes: How many shapes there are to learn from.
        training: How long and how fast.
    """

    method: ClassVar[str] = NAME
    step: TaskStep
    model: NdfConfig
    objective: OccupancyObjective
    shapes: int
    training: TrainingConfig

    @property
    def pretraining(self) -> str:
        """A digest of all that decides what the network becomes; steps and tasks share it."""
        model = self.model
        parts = (CODE, model.network, model.voxel, self.objective, self.shapes, self.training)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


class Ndf(Method[NdfRecipe, PreTrainer, NdfPredictor]):
    """Neural Descriptor Fields.

    `small` is for a CPU; `original` has the size, the batch and the search of the original.
    """

    name = NAME
    presets = ("small", "original")
    looks_ahead = False

    def recipe(self, demos: DemoSet, step: str, options: MethodOptions) -> NdfRecipe:
        """The recipe of one step."""
        original = self.preset_of(options) == "original"
        chosen = demos.task.step(step)
        model, objective, training, shapes = SMALL
        if original:
            model, objective, training, shapes = ORIGINAL
        target_points = 0
        if chosen.action.holding:
            target_points = len(_target_cloud(demos, step, model.voxel)[0])
        steps = training.steps if options.steps is None else options.steps
        return NdfRecipe(
            chosen,
            replace(model, holding=chosen.action.holding, target_points=target_points),
            objective,
            shapes,
            replace(training, steps=steps, seed=options.seed),
        )

    def trainer(self, demos: DemoSet, recipe: NdfRecipe) -> PreTrainer:
        """A trainer at its first step; at its last one if the same network was trained before."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.training.seed)
            network = NdfNetwork(recipe.model.network)
        bank = ShapeBank(recipe.shapes, recipe.model.voxel, recipe.training.seed)
        return PreTrainer(network, recipe.objective, [bank], recipe.training, recipe.pretraining)

    def finish(self, trainer: PreTrainer, demos: DemoSet, recipe: NdfRecipe) -> NdfPredictor:
        """The network with query points and descriptors of the demonstrations."""
        trainer.use_average()
        config, name = recipe.model, recipe.step.name
        model = NdfModel(config)
        model.network.load_state_dict(trainer.model.state_dict())
        model.eval()
        objects = [object_in(demo, name, demos) for demo in demos]
        shown = [step.targets[0] for step in demos.steps(name)]
        rng = np.random.default_rng(recipe.training.seed)
        if config.holding:
            target, T_scene_target = _target_cloud(demos, name, config.voxel)
            model.target.copy_(torch.tensor(target.points))
            poses = [np.linalg.inv(pose) @ there
                     for pose, there in zip(shown, T_scene_target, strict=True)]  # fmt: skip
            placed = objects[0].transformed(shown[0])
            queries = _about_target(target, placed, config.queries, rng)
        else:
            poses = shown
            contact = demos.gripper.T_gripper_contact[:3, 3]
            queries = contact + rng.normal(0.0, ABOUT_CONTACT, (config.queries, 3))
        learn_poses(model, objects, poses, queries)
        return NdfPredictor(recipe.step, model, demos.gripper)

    def save(self, predictor: NdfPredictor, folder: Path) -> None:
        """Configuration, weights and descriptors."""
        config = predictor.model.config
        stored = StoredModel(predictor.step, predictor.trained_gripper, config)
        save_parts(folder, self.name, stored, predictor.model)

    def load(self, folder: Path) -> NdfPredictor:
        """What `save` wrote."""
        stored = read_parts(folder, self.name, NdfConfig)
        if stored.step.action.holding != stored.config.holding:
            raise FileFormatError(
                f"{folder}: the step's action is {stored.step.action.value!r}, and the model is "
                f"for {'a full' if stored.config.holding else 'an empty'} gripper."
            )
        model = NdfModel(stored.config)
        read_weights(folder, model)
        return NdfPredictor(stored.step, model, stored.gripper)

    def notes(self, trainer: PreTrainer, recipe: NdfRecipe) -> dict[str, Any]:
        """How long pre-training took, also where another step or task had done it before."""
        return {} if trainer.earlier is None else {"seconds": round(trainer.earlier, 2)}


def _target_cloud(
    demos: DemoSet, step: str, voxel: float
) -> tuple[PointCloud, list[Float[np.ndarray, "4 4"]]]:
    """The target's cloud, thinned, and T_scene_target of every demonstration."""
    target, poses = target_poses(demos, step)
    return voxel_filter(target, voxel), poses


def _about_target(
    target: PointCloud, placed: PointCloud, count: int, rng: np.random.Generator
) -> Float[np.ndarray, "queries 3"]:
    """Query points about that part of the target that is near the placed object."""
    away, _ = cKDTree(placed.points).query(target.points)
    near = np.argsort(away)[: max(int((away < NEAR_OBJECT).sum()), 20)]
    chosen = target.points[rng.choice(near, size=count)]
    return chosen + rng.normal(0.0, ABOUT_TARGET, (count, 3))


SMALL = (
    NdfConfig(False),
    OccupancyObjective(),
    TrainingConfig(
        steps=1500,
        schedule=Schedule(peak=2e-2, warmup=0.05, floor=0.02),
        averaging=0.97,
        optimizer="muon",
    ),
    600,
)
"""Model, objective, training and number of shapes."""
ORIGINAL = (
    NdfConfig(
        False,
        NetworkConfig(points=1000, neighbours=20, width=128, latent=256, hidden=256),
        PoseSearch(starts=10, kept=10, steps=500, rate=0.01, stride=0.01),
        queries=500,
        voxel=0.002,
    ),
    OccupancyObjective(clouds=16, positions=1500),
    TrainingConfig(
        steps=100_000,
        schedule=Schedule(peak=1e-4, warmup=0.0, floor=1.0),
        averaging=0.0,
        optimizer="adam",
    ),
    10_000,
)
"""The same at the size of the original."""

NDF = Ndf()
