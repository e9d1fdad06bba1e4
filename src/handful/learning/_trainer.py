"""The trainer: seeded by step, interruptible, resumable to the bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor, distributed, nn

from handful._checks import MAX_TRAINING_STEPS, check_seed, whole_number
from handful.errors import HandfulError, OptionError, unknown_name_message
from handful.learning._adam import Adam
from handful.learning._muon import Muon
from handful.learning._objectives import Loss
from handful.learning._schedule import Schedule

ModelT = TypeVar("ModelT", bound=nn.Module)
ExampleT = TypeVar("ExampleT")
MOST_BAD_STEPS = 10

OPTIMIZERS: dict[str, type[Adam] | type[Muon]] = {"adam": Adam, "muon": Muon}


class TrainingError(HandfulError):
    """Training cannot go on."""


@runtime_checkable
class Objective(Protocol):
    """What a trainer lowers, for the kind of model and of example that it is given."""

    def loss(self, model: Any, example: Any, rng: np.random.Generator, progress: float) -> Loss:
        """The loss of one demonstration; `progress` from 0 to 1 says how far training is."""
        ...


@dataclass(frozen=True)
class TrainingConfig:
    """How long and how fast.

    Attributes:
        steps: Optimiser steps.
        batch: Demonstrations in each step.
        schedule: Of the learning rate.
        clip: Largest norm of the gradient.
        averaging: Decay of the running average of weights that training returns; 0 for none.
        optimizer: One of `OPTIMIZERS`.
        seed: The same seed gives the same model.
    """

    steps: int = 300
    batch: int = 1
    schedule: Schedule = field(default_factory=Schedule)
    clip: float = 5.0
    averaging: float = 0.97
    optimizer: str = "muon"
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("training steps", self.steps, 1, MAX_TRAINING_STEPS)
        whole_number("batch", self.batch, 1, 10_000)
        check_seed(self.seed)
        if self.optimizer not in OPTIMIZERS:
            raise OptionError(unknown_name_message("optimizer", self.optimizer, tuple(OPTIMIZERS)))
        if not (self.clip > 0 and 0 <= self.averaging < 1):
            raise OptionError(f"training clip {self.clip}, averaging {self.averaging}: need > 0, "
                              "and 0 to 1.")  # fmt: skip


@dataclass(frozen=True)
class StepReport:
    """What happened in one step, for a progress bar or a log.

    Attributes:
        step: Its number, from 0.
        steps: How many there will be.
        loss: Mean loss of the demonstrations in it.
        likelihood: Mean of what stands for -log P.
        target_energy: Mean energy of the demonstrated poses.
        negative_energy: Mean energy of what competes with them.
        weights: Query weights of the last demonstration.
        skipped: Steps skipped so far because something was not finite.
    """

    step: int
    steps: int
    loss: float
    likelihood: float
    target_energy: float
    negative_energy: float
    weights: tuple[float, ...]
    skipped: int


class Trainer(Generic[ModelT, ExampleT]):
    """Lowers an objective over demonstrations.

    All randomness of the j-th demonstration of step k comes from (seed, k, j), so a run that was
    stopped after any step and resumed from its state goes on exactly as if it had not been stopped.

    In a process group of `torch.distributed` (see `torchrun`) the demonstrations of each step are
    shared among the processes and their gradients added up: the same training, sooner.

    Args:
        model: What to train, in place.
        objective: What to lower.
        examples: What to learn from.
        config: How long and how fast.
    """

    def __init__(
        self, model: ModelT, objective: Objective, examples: list[ExampleT], config: TrainingConfig
    ) -> None:
        self.model, self.config = model, config
        self._objective, self.examples = objective, examples
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._optimizer = OPTIMIZERS[config.optimizer](self._parameters)
        self._average = [p.detach().clone() for p in self._parameters]
        self.done, self.skipped, self._bad_in_a_row = 0, 0, 0

    def run(
        self, report: Callable[[StepReport], None] | None = None, until: int | None = None
    ) -> None:
        """Train up to step `until` (the end by default).

        Raises:
            TrainingError: Ten steps in a row were not finite; the weights are those before them.
        """
        self.model.train()
        for _ in range(self.done, self.config.steps if until is None else until):
            result = self._step()
            if report is not None:
                report(result)
        self.model.eval()

    def use_average(self) -> None:
        """Give the model the running average of its weights."""
        if self.config.averaging == 0 or self.done == 0:
            return
        with torch.no_grad():
            for parameter, average in zip(self._parameters, self._average, strict=True):
                parameter.copy_(average)

    def _step(self) -> StepReport:
        config = self.config
        self._optimizer.zero_grad()
        losses = []
        for place, index in enumerate(self._chosen()):
            if place % processes() != rank():
                continue
            rng = np.random.default_rng([config.seed, self.done, place])
            loss = self._objective.loss(
                self.model, self.examples[index], rng, self.done / config.steps
            )
            (loss.total / config.batch).backward()
            losses.append(loss)
        total, likelihood, target, negative = self._shared(losses)
        norm = float(nn.utils.clip_grad_norm_(self._parameters, config.clip))
        self._update(math.isfinite(total) and math.isfinite(norm))
        self.done += 1
        return StepReport(
            self.done - 1,
            config.steps,
            total,
            likelihood,
            target,
            negative,
            losses[-1].weights if losses else (),
            self.skipped,
        )

    def _shared(self, losses: list[Loss]) -> list[float]:
        """Means over the batch of the losses' numbers; gradients are added up on the way."""
        numbers = [[loss.total.item(), loss.likelihood, loss.target_energy, loss.negative_energy]
                   for loss in losses]  # fmt: skip
        means = torch.tensor(numbers).reshape(-1, 4).sum(0).double() / self.config.batch
        if processes() > 1:
            for parameter in self._parameters:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
            flat = nn.utils.parameters_to_vector([p.grad for p in self._parameters])  # type: ignore[misc]
            distributed.all_reduce(flat)
            distributed.all_reduce(means)
            start = 0
            for parameter in self._parameters:
                assert parameter.grad is not None
                end = start + parameter.numel()
                parameter.grad.copy_(flat[start:end].view_as(parameter))
                start = end
        return means.tolist()

    def _chosen(self) -> list[int]:
        """Demonstrations of a step: all of them in turn, in an order that changes every round."""
        count, batch = len(self.examples), self.config.batch
        places = range(self.done * batch, (self.done + 1) * batch)
        orders = {
            place // count: np.random.default_rng(
                [self.config.seed, 2**31 + place // count]
            ).permutation(count)
            for place in places
        }
        return [int(orders[place // count][place % count]) for place in places]

    def _update(self, finite: bool) -> None:
        if not finite:
            self.skipped += 1
            self._bad_in_a_row += 1
            if self._bad_in_a_row >= MOST_BAD_STEPS:
                raise TrainingError(
                    f"{MOST_BAD_STEPS} steps in a row gave a loss or gradient that is not finite, "
                    f"up to step {self.done}; the weights before them are kept. Lower the learning "
                    "rate, or look at the demonstrations with `handful show`."
                )
            return
        self._bad_in_a_row = 0
        self._optimizer.step(self.config.schedule.rate(self.done, self.config.steps))
        # The average forgets its beginning as fast as it can while it is young.
        decay = min(self.config.averaging, (1 + self.done) / (10 + self.done))
        with torch.no_grad():
            for average, parameter in zip(self._average, self._parameters, strict=True):
                average.lerp_(parameter, 1.0 - decay)

    # --- state ---------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs, as named tensors."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        counts = torch.tensor([self.done, self.skipped, self._bad_in_a_row])
        tensors["trainer.counts"] = counts
        for index, average in enumerate(self._average):
            tensors[f"average.{index}"] = average
        for name, value in self._optimizer.state().items():
            tensors[f"optimizer.{name}"] = value
        return {name: value.detach().clone() for name, value in tensors.items()}

    def resume(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a state; ValueError if its counts cannot be those of this training."""
        prefix = "model."
        weights = {n[len(prefix) :]: v for n, v in tensors.items() if n.startswith(prefix)}
        self.model.load_state_dict(weights)
        done, skipped, bad = tensors["trainer.counts"].tolist()
        if not all(0 <= count <= self.config.steps for count in (done, skipped, bad)):
            raise ValueError(
                f"{done} steps are done, {skipped} were skipped, {bad} of them in a row: need "
                f"numbers from 0 to {self.config.steps}"
            )
        self.done, self.skipped, self._bad_in_a_row = done, skipped, bad
        self._average = [tensors[f"average.{n}"].clone() for n in range(len(self._parameters))]
        start = "optimizer."
        self._optimizer.resume(
            {n[len(start) :]: value for n, value in tensors.items() if n.startswith(start)}
        )


def _in_group() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def processes() -> int:
    """How many processes train together."""
    return distributed.get_world_size() if _in_group() else 1


def rank() -> int:
    """The number of this one among them, from 0."""
    return distributed.get_rank() if _in_group() else 0
