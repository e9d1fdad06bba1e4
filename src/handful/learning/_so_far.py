"""The model of a training that is under way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from handful.demos import DemoSet
from handful.learning._checkpoint import resume_from
from handful.learning._recipe import Recipe
from handful.learning._run import RunFolder, fingerprint
from handful.learning._trainer import Trainer
from handful.models import EdfModel
from handful.policy import Predictor


def predictor_so_far(demos: DemoSet, recipe: Recipe, folder: str | Path) -> Predictor | None:
    """What a training that is under way has learned up to its last checkpoint.

    Its confidence is not calibrated: that is done at the end.

    Args:
        demos: What is learned from.
        recipe: What is trained and how.
        folder: The run's folder.

    Returns:
        None when there is no checkpoint yet, or no longer.
    """
    path = RunFolder(Path(folder)).checkpoint(recipe.step.name)
    if not path.is_file():
        return None
    model = EdfModel(recipe.model)
    trainer = Trainer[EdfModel, Any](model, recipe.objective, [], recipe.training)
    resume_from(trainer, path, fingerprint(demos, recipe))
    trainer.use_average()
    return Predictor(recipe.step, model.eval(), demos.gripper, recipe.preparation, recipe.search)
