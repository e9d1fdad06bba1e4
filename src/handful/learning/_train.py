"""From demonstrations to a trained model: the two calls that most people need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from handful.clouds import PointCloud
from handful.demos import DemoSet, Gripper, Step
from handful.errors import DemoError
from handful.learning._confidence import Confidence, without_target
from handful.learning._objectives import focus_of_pick, focus_of_place
from handful.learning._recipes import Recipe, pick_recipe, place_recipe
from handful.learning._trained import SearchConfig, TrainedModel, evidence, workspace
from handful.learning._trainer import StepReport, Trainer
from handful.models import Model, PickConfig, PickModel, PlaceModel

CUT_OUT = (0.14, 0.17, 0.20)
"""Metres: radii of the balls that take a target out of a scene, one after another."""


def train_pick(
    demos: DemoSet,
    *,
    seed: int = 0,
    report: Callable[[StepReport], None] | None = None,
    **options: Any,
) -> TrainedModel:
    """Learn where to grasp.

    Args:
        demos: Demonstrations, all with a pick step.
        seed: The same seed gives the same model.
        report: Called after every step.
        options: Of `pick_recipe`.
    """
    return train(demos, pick_recipe(demos, seed=seed, **options), report=report)


def train_place(
    demos: DemoSet,
    *,
    seed: int = 0,
    report: Callable[[StepReport], None] | None = None,
    **options: Any,
) -> TrainedModel:
    """Learn where to bring what is held.

    Args:
        demos: Demonstrations, all with a place step and a grasp cloud.
        seed: The same seed gives the same model.
        report: Called after every step.
        options: Of `place_recipe`.
    """
    return train(demos, place_recipe(demos, seed=seed, **options), report=report)


def train(
    demos: DemoSet, recipe: Recipe, *, report: Callable[[StepReport], None] | None = None
) -> TrainedModel:
    """Learn by a recipe of one's own."""
    trainer = make_trainer(demos, recipe)
    trainer.run(report)
    return finish(trainer, demos, recipe)


def make_trainer(demos: DemoSet, recipe: Recipe) -> Trainer:
    """A trainer at its first step."""
    steps = training_steps(demos, recipe)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.training.seed)
        model: Model
        if isinstance(recipe.model, PickConfig):
            model = PickModel(recipe.model)
        else:
            model = PlaceModel(recipe.model)
    return Trainer(model, recipe.objective, steps, recipe.training)


def training_steps(demos: DemoSet, recipe: Recipe) -> list[Step]:
    """The demonstrated steps that a recipe's model learns from, thinned."""
    kind = "pick" if isinstance(recipe.model, PickConfig) else "place"
    shown = demos.steps(kind)
    if kind == "pick":  # what an empty gripper looks like says nothing
        shown = [Step("pick", step.scene, step.targets) for step in shown]
    steps = [recipe.search.prepared_step(step) for step in shown]
    for demo, step in zip(demos, steps, strict=True):
        if kind == "place" and step.grasp is None:
            raise DemoError(
                f"demonstration {demo.name!r}: the place step has no grasp cloud, which the place "
                "model learns from; record what the gripper holds."
            )
    return steps


def finish(trainer: Trainer, demos: DemoSet, recipe: Recipe) -> TrainedModel:
    """The model of a trainer that is done: averaged weights, calibrated confidence."""
    trainer.use_average()
    model: Model = trainer.model  # type: ignore[assignment]
    model.eval()
    steps = training_steps(demos, recipe)
    confidence = calibrate(model, steps, demos.gripper, recipe.search, recipe.training.seed)
    return TrainedModel(model, demos.gripper, recipe.search, confidence)


def calibrate(
    model: Model, steps: list[Step], gripper: Gripper, search: SearchConfig, seed: int
) -> Confidence:
    """Confidence from the best energies with the target, and with it cut out or replaced."""
    blank = TrainedModel(model, gripper, search, Confidence(0.0, 1.0))

    def best(scene: PointCloud, grasp: PointCloud | None) -> float:
        energy = blank.energy(search.prepared(scene, grasp))
        generator = torch.Generator().manual_seed(seed)
        found = search.sampler(energy).sample(energy, workspace(energy, search.reach), 1, generator)
        return float(evidence(energy, found.energies.double().numpy())[0])

    present = [best(step.scene, step.grasp) for step in steps]
    absent = [
        best(scene, step.grasp)
        for index, step in enumerate(steps)
        for scene in _emptied(model, step, np.random.default_rng([seed, index]))
    ]
    return Confidence.between(np.array(present), np.array(absent or [max(present) + 1.0]))


def _emptied(model: Model, step: Step, rng: np.random.Generator) -> Iterator[PointCloud]:
    """The scene without its target, and with something else there."""
    focus = focus_of_pick(model, step) if isinstance(model, PickModel) else focus_of_place(step)
    for replaced in (False, True):
        radius = CUT_OUT[int(rng.integers(len(CUT_OUT)))]
        scene = without_target(step.scene, focus, radius, rng, replaced)
        if scene is not None:
            yield scene
