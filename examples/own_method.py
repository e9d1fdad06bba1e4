"""A method of your own, beside ours: `handful train DEMOS --method highest-point --out RUN`.

A package that you install names it in its `pyproject.toml`, and nothing of handful is touched:

    [project.entry-points."handful.methods"]
    highest-point = "own_method:HIGHEST_POINT"

The method here learns one thing for each step: how far the point of contact is from the highest
point of the scene. That is enough to show all that a method consists of. Run folders, `--resume`,
`handful infer`, `bench` and `report` work with its models as with ours.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from handful.clouds import PointCloud
from handful.demos import DemoSet, Gripper, TaskStep
from handful.learning import (
    Loss,
    Method,
    MethodOptions,
    StoredModel,
    Trainer,
    TrainingConfig,
    read_parts,
    read_weights,
    save_parts,
)
from handful.policy import RankedPoses


@dataclass(frozen=True)
class Recipe:
    """What is trained, and how long. A run goes on only with the same one."""

    method: ClassVar[str] = "highest-point"
    step: TaskStep
    training: TrainingConfig


class Offset(nn.Module):
    """From the highest point of a scene to the point of contact, metres."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(3))

    def forward(self, scene: PointCloud) -> torch.Tensor:
        highest = scene.points[scene.points[:, 2].argmax()]
        return torch.tensor(highest) + self.offset


class Squared:
    """The objective: squared error of the point of contact, in square centimetres."""

    def loss(self, model, example, rng, progress) -> Loss:
        scene, contact = example
        error = 1e4 * (model(scene) - torch.from_numpy(contact).float()).square().sum()
        return Loss(error, error.item(), error.item(), 0.0, ())


@dataclass(frozen=True)
class Stored:
    """What using a model needs besides step, gripper and weights; it is written as JSON."""

    T_scene_contact: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Predictor:
    """Goes to the highest point plus the offset, turned as in the first demonstration."""

    step: TaskStep
    model: Offset
    trained_gripper: Gripper
    turned: np.ndarray
    other_gripper: Gripper | None = None

    @property
    def gripper(self) -> Gripper:
        return self.other_gripper or self.trained_gripper

    def for_gripper(self, gripper: Gripper) -> "Predictor":
        return replace(self, other_gripper=gripper)

    def sample(self, scene, grasp=None, n=100, seed=0) -> RankedPoses:
        T_scene_contact = self.turned.copy()
        T_scene_contact[:3, 3] = self.model(scene).detach().numpy()
        pose = T_scene_contact @ np.linalg.inv(self.gripper.T_gripper_contact)
        return RankedPoses(pose[None], np.zeros(1), np.ones(1), 0.0, self.gripper)


class HighestPoint(Method[Recipe, Trainer, Predictor]):
    """One method is one object of this kind."""

    name = "highest-point"
    presets = ("only",)
    looks_ahead = False

    def recipe(self, demos: DemoSet, step: str, options: MethodOptions) -> Recipe:
        self.preset_of(options)
        steps = 200 if options.steps is None else options.steps
        training = TrainingConfig(steps=steps, seed=options.seed, optimizer="adam")
        return Recipe(demos.task.step(step), training)

    def trainer(self, demos: DemoSet, recipe: Recipe) -> Trainer:
        contact = demos.gripper.T_gripper_contact
        steps = demos.steps(recipe.step.name)
        examples = [(step.scene, (step.targets[0] @ contact)[:3, 3]) for step in steps]
        return Trainer(Offset(), Squared(), examples, recipe.training)

    def finish(self, trainer: Trainer, demos: DemoSet, recipe: Recipe) -> Predictor:
        trainer.use_average()
        first = demos.steps(recipe.step.name)[0].targets[0] @ demos.gripper.T_gripper_contact
        return Predictor(recipe.step, trainer.model, demos.gripper, first)

    def save(self, predictor: Predictor, folder: Path) -> None:
        config = Stored(tuple(predictor.turned.ravel().tolist()))
        stored = StoredModel(predictor.step, predictor.trained_gripper, config)
        save_parts(folder, self.name, stored, predictor.model)

    def load(self, folder: Path) -> Predictor:
        stored, model = read_parts(folder, self.name, Stored), Offset()
        read_weights(folder, model)
        turned = np.array(stored.config.T_scene_contact).reshape(4, 4)
        return Predictor(stored.step, model, stored.gripper, turned)


HIGHEST_POINT = HighestPoint()
