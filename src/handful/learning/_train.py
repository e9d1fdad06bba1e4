"""From demonstrations of a step to its predictor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from handful.demos import DemoSet
from handful.errors import OptionError
from handful.learning._calibration import calibrate
from handful.learning._recipe import Recipe, recipe_for
from handful.learning._trainer import StepReport, Trainer
from handful.learning.variation import Example, examples_of
from handful.models import EdfModel
from handful.policy import CloudStatistics, Crossings, Predictor

EdfTrainer = Trainer[EdfModel, Example]


def train_step(
    demos: DemoSet,
    step: str,
    *,
    seed: int = 0,
    report: Callable[[StepReport], None] | None = None,
    **options: Any,
) -> Predictor:
    """Learn one step of a task.

    Args:
        demos: Demonstrations, all with that step.
        step: Its name.
        seed: The same seed gives the same predictor.
        report: Called after every optimiser step.
        options: Of `recipe_for`.
    """
    if not isinstance(demos, DemoSet):
        raise OptionError(
            f"demos is of type {type(demos).__name__}: need a DemoSet, for example "
            "load_demos('out/mug')."
        )
    return train(demos, recipe_for(demos, step, seed=seed, **options), report=report)


def train(
    demos: DemoSet, recipe: Recipe, *, report: Callable[[StepReport], None] | None = None
) -> Predictor:
    """Learn by a recipe of one's own."""
    trainer = make_trainer(demos, recipe)
    trainer.run(report)
    return finish(trainer, demos, recipe)


def make_trainer(demos: DemoSet, recipe: Recipe) -> EdfTrainer:
    """A trainer at its first step."""
    examples = examples_of(demos, recipe.step.name, recipe.preparation)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.training.seed)
        model = EdfModel(recipe.model)
    return Trainer(model, recipe.objective, examples, recipe.training)


def finish(trainer: EdfTrainer, demos: DemoSet, recipe: Recipe) -> Predictor:
    """The predictor of a trainer that is done: averaged weights, calibrated confidence."""
    trainer.use_average()
    model = trainer.model.eval()
    predictor = Predictor(recipe.step, model, demos.gripper, recipe.preparation, recipe.search)
    variation, training = recipe.objective.variation, recipe.training
    confidence = calibrate(predictor, trainer.examples, variation, training.seed, training.steps)
    steps = demos.steps(recipe.step.name)
    return replace(
        predictor,
        confidence=confidence,
        trained_on=CloudStatistics.typical([step.scene for step in steps]),
        crossings=Crossings.shown(steps),
    )
