"""Success rates with honest intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from handful.bench._paper import RATES, PaperRates
from handful.bench._record import EpisodeRecord, Failure
from handful.errors import OptionError

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
class Summary:
    """A row of the table: one task in one setup.

    Attributes:
        task: Its name.
        setup: Its name.
        seeds: First and last.
        pick: Picks, of all episodes.
        place: Places, of the episodes whose pick succeeded.
        total: Both.
        pick_seconds: Median time of inference; None if nothing was tried.
        place_seconds: The same.
        pick_skips: Mean number of poses that were skipped as infeasible.
        place_skips: The same.
        failures: How often each kind of failure came, the most frequent first.
        void: Episodes that could not begin; they are in no rate.
        paper: What the paper reports, if it does.
    """

    task: str
    setup: str
    seeds: tuple[int, int]
    pick: Rate
    place: Rate
    total: Rate
    pick_seconds: float | None
    place_seconds: float | None
    pick_skips: float | None
    place_skips: float | None
    failures: tuple[tuple[str, int], ...]
    void: int
    paper: PaperRates | None


def summarise(records: Sequence[EpisodeRecord]) -> Summary:
    """The row of episodes of one task and setup.

    Raises:
        OptionError: There are none, or they are of different tasks or setups.
    """
    if len({(record.task, record.setup) for record in records}) != 1:
        raise OptionError(f"summarise got {len(records)} episodes: need some, of one kind.")
    task, setup = records[0].task, records[0].setup
    counted = [record for record in records if record.counts]
    picked = [record for record in counted if record.picked]
    done = sum(record.success for record in counted)
    picks = [record.pick for record in counted if record.pick is not None]
    places = [record.place for record in counted if record.place is not None]
    kinds = Counter(record.failure.value for record in counted if not record.success)
    seeds = [record.seed for record in records]
    return Summary(
        task=task,
        setup=setup,
        seeds=(min(seeds), max(seeds)),
        pick=Rate(len(picked), len(counted)),
        place=Rate(done, len(picked)),
        total=Rate(done, len(counted)),
        pick_seconds=float(np.median([step.seconds for step in picks])) if picks else None,
        place_seconds=float(np.median([step.seconds for step in places])) if places else None,
        pick_skips=float(np.mean([step.skips for step in picks])) if picks else None,
        place_skips=float(np.mean([step.skips for step in places])) if places else None,
        failures=tuple(kinds.most_common()),
        void=sum(record.failure is Failure.NO_LAYOUT for record in records),
        paper=RATES.get((task, setup)),
    )
