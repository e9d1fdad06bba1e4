"""From demonstrations of a step to its predictor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from handful.demos import DemoSet, Step
from handful.errors import DemoError
from handful.learning._calibration import calibrate
from handful.learning._recipe import Recipe, recipe_for
from handful.learning._trainer import StepReport, Trainer
from handful.models import EdfModel
from handful.policy import Predictor


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
    return train(demos, recipe_for(demos, step, seed=seed, **options), report=report)


def train(
    demos: DemoSet, recipe: Recipe, *, report: Callable[[StepReport], None] | None = None
) -> Predictor:
    """Learn by a recipe of one's own."""
    trainer = make_trainer(demos, recipe)
    trainer.run(report)
    return finish(trainer, demos, recipe)


def make_trainer(demos: DemoSet, recipe: Recipe) -> Trainer:
    """A trainer at its first step."""
    shown = [recipe.preparation.step(step, demos.gripper) for step in _shown(demos, recipe)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.training.seed)
        model = EdfModel(recipe.model)
    return Trainer(model, recipe.objective, shown, recipe.training)


def finish(trainer: Trainer, demos: DemoSet, recipe: Recipe) -> Predictor:
    """The predictor of a trainer that is done: averaged weights, calibrated confidence."""
    trainer.use_average()
    model = trainer.model.eval()
    predictor = Predictor(recipe.step, model, demos.gripper, recipe.preparation, recipe.search)
    confidence = calibrate(predictor, _shown(demos, recipe), recipe.training.seed)
    return replace(predictor, confidence=confidence)


def _shown(demos: DemoSet, recipe: Recipe) -> list[Step]:
    """The demonstrated steps that a recipe's model learns from.

    Raises:
        DemoError: A step with something in the gripper has no grasp cloud.
    """
    shown = demos.steps(recipe.step.name)
    if not recipe.step.action.holding:  # what an empty gripper looks like says nothing
        return [Step(step.name, step.action, step.scene, step.targets) for step in shown]
    for demo, step in zip(demos, shown, strict=True):
        if step.grasp is None:
            raise DemoError(
                f"demonstration {demo.name!r}: the step {step.name!r} has no grasp cloud, which "
                "its model learns from: record what the gripper holds."
            )
    return shown
