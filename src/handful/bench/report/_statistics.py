"""Success rates with honest intervals, for each step of a task and for the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from handful.bench.report._paper import RATES, PaperRates
from handful.bench.run import EpisodeRecord
from handful.errors import OptionError, unknown_name_message

_Z = 1.959963984540054
"""Quantile of the normal distribution for 95 per cent."""


@dataclass(frozen=True)
class Rate:
    """Successes out of trials.

    Attributes:
        successes: How many succeeded.
        trials: Out of how many.
    """

    successes: int
    trials: int

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.trials:
            raise OptionError(
                f"a rate of {self.successes} in {self.trials}: need 0 <= successes <= trials."
            )

    @property
    def value(self) -> float | None:
        """The share, or None if nothing was tried."""
        return self.successes / self.trials if self.trials else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval; of no trials, everything."""
        if not self.trials:
            return 0.0, 1.0
        n, share = self.trials, self.successes / self.trials
        middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z / (1 + _Z**2 / n) * np.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
        low = 0.0 if self.successes == 0 else float(middle - half)
        high = 1.0 if self.successes == n else float(middle + half)
        return low, high

    def __str__(self) -> str:
        return "-" if self.value is None else f"{self.value:.2f}"


@dataclass(frozen=True)
class StepSummary:
    """How one step of a task went in many episodes.

    Attributes:
        name: Of the step.
        rate: Successes, of the episodes that came to the step.
        seconds: Median time of inference; None if no episode came to the step.
        skips: Mean number of poses that were skipped as infeasible; None if none came to it.
        redirected: In how many episodes looking ahead chose another pose than the first.
    """

    name: str
    rate: Rate
    seconds: float | None
    skips: float | None
    redirected: int = 0


@dataclass(frozen=True)
class Summary:
    """A row of the table: one task in one setup.

    Attributes:
        task: Name of the task.
        setup: Name of the setup.
        seeds: First and last.
        steps: In the order of the task.
        total: Episodes in which the whole task was done, of all that began.
        failures: How often each kind of failure came, the most frequent first.
        void: Episodes that could not begin; they are in no rate.
        paper: What the paper reports, if it does.
    """

    task: str
    setup: str
    seeds: tuple[int, int]
    steps: tuple[StepSummary, ...]
    total: Rate
    failures: tuple[tuple[str, int], ...]
    void: int
    paper: PaperRates | None

    @property
    def step_names(self) -> tuple[str, ...]:
        """Names of the steps in order."""
        return tuple(step.name for step in self.steps)

    def step(self, name: str) -> StepSummary:
        """The step of that name.

        Raises:
            OptionError: There is none.
        """
        for step in self.steps:
            if step.name == name:
                return step
        raise OptionError(unknown_name_message("step", name, self.step_names))


def summarise(records: Sequence[EpisodeRecord]) -> Summary:
    """The row of episodes of one task and setup.

    Raises:
        OptionError: There are none, or they are of different tasks, setups or steps.
    """
    kinds = {(record.task, record.setup, record.planned) for record in records}
    if len(kinds) != 1:
        raise OptionError(
            f"summarise got {len(records)} episodes of {len(kinds)} kinds: need some, all of one "
            "task, one setup and the same steps."
        )
    ((task, setup, planned),) = kinds
    begun = [record for record in records if record.begun]
    failures = Counter(record.outcome for record in begun if not record.success)
    seeds = [record.seed for record in records]
    return Summary(
        task=task,
        setup=setup,
        seeds=(min(seeds), max(seeds)),
        steps=tuple(_of_step(begun, name) for name in planned),
        total=Rate(sum(record.success for record in begun), len(begun)),
        failures=tuple(failures.most_common()),
        void=len(records) - len(begun),
        paper=RATES.get((task, setup)),
    )


def table_of(records: Sequence[EpisodeRecord]) -> list[Summary]:
    """A row for each task, setup and list of steps, in the order in which they come."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[EpisodeRecord]] = {}
    for record in records:
        groups.setdefault((record.task, record.setup, record.planned), []).append(record)
    return [summarise(group) for group in groups.values()]


def _of_step(records: Sequence[EpisodeRecord], name: str) -> StepSummary:
    reached = [step for record in records if (step := record.step(name)) is not None]
    return StepSummary(
        name,
        Rate(sum(step.ok for step in reached), len(reached)),
        float(np.median([step.seconds for step in reached])) if reached else None,
        float(np.mean([step.skips for step in reached])) if reached else None,
        sum(step.looked_ahead is not None and step.looked_ahead.changed for step in reached),
    )
