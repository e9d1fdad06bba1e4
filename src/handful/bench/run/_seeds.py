"""Which seeds are for what, so that nothing is judged on what it was tuned on.

Demonstrations draw from a random stream of their own and share no numbers with any of these.
"""

from __future__ import annotations

from handful._checks import check_seed, whole_number
from handful.errors import OptionError

DEVELOPMENT = range(2_000, 3_000)
"""For trying things out while developing models."""
EVALUATION = range(10_000, 1_000_000)
"""For numbers that are reported; never looked at while developing."""


def kind_of_seeds(seeds: range) -> str:
    """What a run of consecutive seeds may be used for: one line for people."""
    if seeds.start in EVALUATION:
        return "evaluation"
    if seeds.start in DEVELOPMENT and seeds[-1] in DEVELOPMENT:
        return "development"
    return "used while the simulated tasks were made"


def episode_seeds(first: int, count: int) -> range:
    """The seeds of `count` episodes.

    Raises:
        OptionError: There are none, or they are not all of one kind.
    """
    whole_number("number of episodes", count, 1, 100_000)
    check_seed(first)
    seeds = range(first, first + count)
    if first < EVALUATION.start <= seeds[-1]:
        raise OptionError(
            f"seeds {first} to {seeds[-1]} run into those kept for evaluation: stay below "
            f"{EVALUATION.start} or begin there."
        )
    return seeds
