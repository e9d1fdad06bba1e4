"""SE(3)-Transporter Networks as a method: its sizes, its training, its folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch

from handful.baselines.transporter._augmentation import ImageAugmentation
from handful.baselines.transporter._config import TransporterConfig
from handful.baselines.transporter._model import TransporterModel
from handful.baselines.transporter._objective import (
    TransporterExample,
    TransporterObjective,
    examples_of,
    fitted_config,
)
from handful.baselines.transporter._predictor import TransporterPredictor
from handful.demos import DemoSet, TaskStep
from handful.errors import FileFormatError
from handful.learning import (
    Method,
    MethodOptions,
    Schedule,
    StoredModel,
    Trainer,
    TrainingConfig,
    read_parts,
    read_weights,
    save_parts,
)

TransporterTrainer = Trainer[TransporterModel, TransporterExample]

NAME = "transporter"


@dataclass(frozen=True)
class TransporterRecipe:
    """All that training the model of one step needs besides demonstrations.

    Attributes:
        method: Name of the method.
        step: Name and action of the step.
        model: Configuration of the network.
        objective: What is lowered.
        training: How long and how fast.
    """

    method: ClassVar[str] = NAME
    step: TaskStep
    model: TransporterConfig
    objective: TransporterObjective
    training: TrainingConfig


class Transporter(Method[TransporterRecipe, TransporterTrainer, TransporterPredictor]):
    """SE(3)-Transporter Networks, as the paper ran them.

    `small` has pixels of 5 mm, a quarter of the channels, half of the layers, and three of the 36
    yaws in a training step; `original` has pixels of 2.5 mm, all channels and layers, and all yaws.
    """

    name = NAME
    presets = ("small", "original")
    looks_ahead = False

    def recipe(self, demos: DemoSet, step: str, options: MethodOptions) -> TransporterRecipe:
        """The recipe of one step."""
        original = self.preset_of(options) == "original"
        chosen = demos.task.step(step)
        size = TransporterConfig(chosen.action.holding)
        if original:
            size = replace(
                size, pixels=208, turned_pixels=256, kernel_pixels=96, pixel_size=0.0025, splat=1,
                width=1.0, blocks=2,
            )  # fmt: skip
        training = ORIGINAL_TRAINING if original else SMALL_TRAINING
        steps = training.steps if options.steps is None else options.steps
        objective = TransporterObjective(demos.gripper, ImageAugmentation())
        if original:
            objective = replace(objective, near_yaws=0, far_yaws=0)
        return TransporterRecipe(
            chosen,
            fitted_config(demos, step, size),
            objective,
            replace(training, steps=steps, seed=options.seed),
        )

    def trainer(self, demos: DemoSet, recipe: TransporterRecipe) -> TransporterTrainer:
        """A trainer at its first step."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.training.seed)
            model = TransporterModel(recipe.model)
        examples = examples_of(demos, recipe.step.name, recipe.model)
        return Trainer(model, recipe.objective, examples, recipe.training)

    def finish(
        self, trainer: TransporterTrainer, demos: DemoSet, recipe: TransporterRecipe
    ) -> TransporterPredictor:
        """The network as it is."""
        trainer.use_average()
        return TransporterPredictor(recipe.step, trainer.model.eval(), demos.gripper)

    def save(self, predictor: TransporterPredictor, folder: Path) -> None:
        """Configuration and weights."""
        config = predictor.model.config
        stored = StoredModel(predictor.step, predictor.trained_gripper, config)
        save_parts(folder, self.name, stored, predictor.model)

    def load(self, folder: Path) -> TransporterPredictor:
        """What `save` wrote."""
        stored = read_parts(folder, self.name, TransporterConfig)
        if stored.step.action.holding != stored.config.holding:
            raise FileFormatError(
                f"{folder}: the step's action is {stored.step.action.value!r}, and the model is "
                f"for {'a full' if stored.config.holding else 'an empty'} gripper."
            )
        model = TransporterModel(stored.config)
        read_weights(folder, model)
        return TransporterPredictor(stored.step, model, stored.gripper)


ORIGINAL_TRAINING = TrainingConfig(
    steps=2000,
    schedule=Schedule(peak=1e-4, warmup=0.0, floor=1.0),
    averaging=0.0,
    optimizer="adam",
)
"""Adam at a fixed rate, one demonstration a step."""
SMALL_TRAINING = TrainingConfig(
    steps=2000,
    schedule=Schedule(peak=1e-3, warmup=0.05, floor=0.02),
    averaging=0.97,
    optimizer="adam",
)
"""As many steps, at a rate that fits a smaller network and ends near zero."""

TRANSPORTER = Transporter()
