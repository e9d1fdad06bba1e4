"""What the paper reports for its own models, by task, setup and step.

Tables `sota` (four unseen setups) and `default` (the trained one), rows of EDFs; ten
demonstrations. Inference times from table `ablation`, seconds on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PaperRates:
    """Success rates of one task in one setup.

    Attributes:
        steps: Rate by the name of the step, among the episodes that came to the step.
        total: Rate of the whole task.
    """

    steps: dict[str, float]
    total: float


def _rates(pick: float, place: float, total: float) -> PaperRates:
    return PaperRates({"pick": pick, "place": place}, total)


RATES = {
    ("mug", "trained"): _rates(1.00, 0.99, 0.99),
    ("mug", "instances"): _rates(1.00, 0.97, 0.97),
    ("mug", "poses"): _rates(1.00, 1.00, 1.00),
    ("mug", "distractors"): _rates(1.00, 0.98, 0.98),
    ("mug", "all"): _rates(1.00, 0.95, 0.95),
    ("bowl", "trained"): _rates(1.00, 1.00, 1.00),
    ("bowl", "instances"): _rates(0.98, 1.00, 0.98),
    ("bowl", "poses"): _rates(1.00, 1.00, 1.00),
    ("bowl", "distractors"): _rates(1.00, 1.00, 1.00),
    ("bowl", "all"): _rates(0.95, 1.00, 0.95),
    ("bottle", "trained"): _rates(0.98, 1.00, 0.98),
    ("bottle", "instances"): _rates(1.00, 1.00, 1.00),
    ("bottle", "poses"): _rates(0.95, 1.00, 0.95),
    ("bottle", "distractors"): _rates(0.99, 1.00, 0.99),
    ("bottle", "all"): _rates(0.95, 1.00, 0.95),
}

SECONDS = {
    "mug": {"pick": 5.1, "place": 8.3},
    "bowl": {"pick": 5.2, "place": 10.4},
    "bottle": {"pick": 5.2, "place": 11.5},
}
"""Inference by task and step, on an RTX 3090 and an i9-12900k."""

TRAINING_HOURS = {"pick": 5.5, "place": 8.5}
"""Training by step, for each of the three tasks."""
