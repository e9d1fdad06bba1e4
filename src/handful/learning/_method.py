"""The interface of a method: from the demonstrations of a step to something that proposes poses.

A run's folder, checkpoints, `--resume`, the benchmark, reports and pictures know methods only by
this interface. The paper's own method is one of them (`learning._edf`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from handful.demos import DemoSet, TaskStep
from handful.errors import OptionError, unknown_name_message
from handful.learning._trainer import StepReport, TrainingConfig
from handful.policy import TrainedPredictor


@dataclass(frozen=True)
class MethodOptions:
    """What a user may ask of any method.

    Attributes:
        preset: One of the method's; empty for its first.
        steps: Optimiser steps, instead of the preset's.
        seed: The same seed gives the same model.
        colors_matter: Objects of other colours than the demonstrated ones are not meant; only for
            methods that say so.
    """

    preset: str = ""
    steps: int | None = None
    seed: int = 0
    colors_matter: bool = False


@runtime_checkable
class StepRecipe(Protocol):
    """All that training the model of one step needs besides demonstrations.

    A frozen dataclass whose `repr` says all of it: a run goes on only with the same recipe. It is
    sent to the process that trains.
    """

    @property
    def method(self) -> str:
        """Name of the method that trains by it."""
        ...

    @property
    def step(self) -> TaskStep:
        """Name and action of the step."""
        ...

    @property
    def training(self) -> TrainingConfig:
        """How long, and from which seed."""
        ...


@runtime_checkable
class StepTrainer(Protocol):
    """A training that can be stopped after any step and go on from there."""

    @property
    def done(self) -> int:
        """Optimiser steps so far."""
        ...

    @property
    def skipped(self) -> int:
        """How many of them were not finite and changed nothing."""
        ...

    def run(
        self, report: Callable[[StepReport], None] | None = None, until: int | None = None
    ) -> None:
        """Train up to step `until` (the end by default), and report each step."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs, copied."""
        ...

    def resume(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a state."""
        ...


RecipeT = TypeVar("RecipeT", bound=StepRecipe)
TrainerT = TypeVar("TrainerT", bound=StepTrainer)
PredictorT = TypeVar("PredictorT", bound=TrainedPredictor)


class Method(ABC, Generic[RecipeT, TrainerT, PredictorT]):
    """A way to learn steps from demonstrations.

    Attributes:
        name: Under which users find it.
        presets: Names of its sizes; the first is the default.
        looks_ahead: Whether poses of its models are chosen with the next step in mind, by default.
        colors_may_matter: Whether it knows the option `colors_matter`.
    """

    name: str
    presets: tuple[str, ...]
    looks_ahead: bool = True
    colors_may_matter: bool = False

    @abstractmethod
    def recipe(self, demos: DemoSet, step: str, options: MethodOptions) -> RecipeT:
        """How the model of a step is trained.

        Args:
            demos: What will be learned from.
            step: Name of the step.
            options: The user's; `preset_of` checks them.
        """

    @abstractmethod
    def trainer(self, demos: DemoSet, recipe: RecipeT) -> TrainerT:
        """A trainer at its first step."""

    @abstractmethod
    def finish(self, trainer: TrainerT, demos: DemoSet, recipe: RecipeT) -> PredictorT:
        """What a trainer that is done has learned, ready for use."""

    @abstractmethod
    def save(self, predictor: PredictorT, folder: Path) -> None:
        """Write a predictor to a folder, which is replaced whole or not at all.

        `save_parts` does it for a configuration and weights.
        """

    @abstractmethod
    def load(self, folder: Path) -> PredictorT:
        """Read what `save` wrote.

        Raises:
            FileFormatError: Something is missing or wrong; the message names the file.
        """

    def notes(self, trainer: TrainerT, recipe: RecipeT) -> dict[str, Any]:
        """More to note in `run.json` about the trained step; fields of `TrainedStep`."""
        return {}

    def preset_of(self, options: MethodOptions) -> str:
        """The preset that is meant.

        Raises:
            OptionError: The method has no preset of that name, or colours never matter to it.
        """
        if options.colors_matter and not self.colors_may_matter:
            raise OptionError(
                f"the method {self.name!r} always learns from the colours as they are: leave out "
                "--colors-matter."
            )
        preset = options.preset or self.presets[0]
        if preset not in self.presets:
            raise OptionError(unknown_name_message("preset", preset, self.presets))
        return preset


AnyMethod = Method[Any, Any, Any]
