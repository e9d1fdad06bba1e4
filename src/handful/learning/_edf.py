"""The paper's method and its ablation, behind the interface of all methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from handful.demos import DemoSet
from handful.learning._method import Method, MethodOptions
from handful.learning._recipe import PRESETS, WITHOUT_ORIENTATION, Recipe, recipe_for
from handful.learning._train import EdfTrainer, finish, make_trainer
from handful.policy import Predictor, load_predictor, save_predictor

QUERIES = {"fast": WITHOUT_ORIENTATION, "slow": {False: 30, True: 10}}
"""Query points of the ablation, for an empty and for a full gripper."""


class Edf(Method[Recipe, EdfTrainer, Predictor]):
    """Equivariant Descriptor Fields."""

    name = "edf"
    presets: tuple[str, ...] = PRESETS
    colors_may_matter = True

    def recipe(self, demos: DemoSet, step: str, options: MethodOptions) -> Recipe:
        """See `recipe_for`."""
        return recipe_for(
            demos, step, preset=self.preset_of(options), colors_matter=options.colors_matter,
            steps=options.steps, seed=options.seed,
        )  # fmt: skip

    def trainer(self, demos: DemoSet, recipe: Recipe) -> EdfTrainer:
        """See `make_trainer`."""
        return make_trainer(demos, recipe)

    def finish(self, trainer: EdfTrainer, demos: DemoSet, recipe: Recipe) -> Predictor:
        """Averaged weights, calibrated confidence."""
        return finish(trainer, demos, recipe)

    def save(self, predictor: Predictor, folder: Path) -> None:
        """See `save_predictor`."""
        save_predictor(predictor, folder)

    def load(self, folder: Path) -> Predictor:
        """See `load_predictor`."""
        return load_predictor(folder)

    def notes(self, trainer: EdfTrainer, recipe: Recipe) -> dict[str, Any]:
        """In how many demonstrations the object was told from its scene."""
        if recipe.step.action.holding:
            return {}
        return {"separated": sum(example.separated for example in trainer.examples)}


class EdfType0(Edf):
    """The paper's ablation: descriptors of type 0 only.

    Several query points together say which way a pose is turned. Its models are those of `edf` with
    another configuration. `fast` uses 10 query points of an empty and 5 of a full gripper, `slow`
    30 and 10.
    """

    name = "edf-type0"
    presets = ("fast", "slow")

    def recipe(self, demos: DemoSet, step: str, options: MethodOptions) -> Recipe:
        """As for `edf`, with type 0 only."""
        holding = demos.task.step(step).action.holding
        return recipe_for(
            demos, step, types=(0,), queries=QUERIES[self.preset_of(options)][holding],
            colors_matter=options.colors_matter, steps=options.steps, seed=options.seed,
        )  # fmt: skip


EDF = Edf()
EDF_TYPE0 = EdfType0()
