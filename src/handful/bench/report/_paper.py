"""What the paper reports, by task, setup and step.

Tables `sota` (four unseen setups), `default` (the trained one), `ablation_full`,
`exp_result_lowvar` and `ndf_suck`; ten demonstrations. Inference times from the tables of the
ablation, seconds on a GPU.
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


def _rates(pick: float, place: float | None, total: float) -> PaperRates:
    steps = {"pick": pick} if place is None else {"pick": pick, "place": place}
    return PaperRates(steps, total)


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

TRANSPORTER_RATES = {
    ("mug", "trained"): _rates(1.00, 0.91, 0.91),
    ("mug", "instances"): _rates(1.00, 0.36, 0.36),
    ("mug", "poses"): _rates(0.00, None, 0.00),
    ("mug", "distractors"): _rates(1.00, 0.63, 0.63),
    ("mug", "all"): _rates(0.25, 0.04, 0.01),
    ("bowl", "trained"): _rates(1.00, 1.00, 1.00),
    ("bowl", "instances"): _rates(0.76, 1.00, 0.76),
    ("bowl", "poses"): _rates(0.00, None, 0.00),
    ("bowl", "distractors"): _rates(1.00, 1.00, 1.00),
    ("bowl", "all"): _rates(0.09, 1.00, 0.09),
    ("bottle", "trained"): _rates(0.99, 0.93, 0.92),
    ("bottle", "instances"): _rates(0.20, 1.00, 0.20),
    ("bottle", "poses"): _rates(0.00, None, 0.00),
    ("bottle", "distractors"): _rates(0.96, 0.92, 0.88),
    ("bottle", "all"): _rates(0.26, 0.88, 0.23),
}
"""SE(3)-Transporter Networks; for the mug from low-variance demonstrations."""

TYPE0_FAST_RATES = {
    ("mug", "trained"): _rates(1.00, 0.98, 0.98),
    ("mug", "all"): _rates(0.84, 0.77, 0.65),
    ("bowl", "trained"): _rates(1.00, 1.00, 1.00),
    ("bowl", "all"): _rates(0.60, 0.95, 0.57),
    ("bottle", "trained"): _rates(1.00, 0.97, 0.97),
    ("bottle", "all"): _rates(0.66, 0.95, 0.63),
}
"""The ablation with 10 and 5 query points."""

TYPE0_SLOW_RATES = {
    ("mug", "trained"): _rates(1.00, 0.98, 0.98),
    ("mug", "all"): _rates(0.90, 0.90, 0.81),
    ("bowl", "trained"): _rates(1.00, 1.00, 1.00),
    ("bowl", "all"): _rates(0.72, 0.99, 0.71),
    ("bottle", "trained"): _rates(1.00, 1.00, 1.00),
    ("bottle", "all"): _rates(0.76, 0.96, 0.73),
}
"""The ablation with 30 and 10 query points."""

LOW_VARIANCE_RATES = {
    ("mug", "poses"): _rates(1.00, 0.96, 0.96),
    ("mug", "instances"): _rates(0.99, 0.90, 0.89),
    ("mug", "distractors"): _rates(1.00, 1.00, 1.00),
    ("mug", "all"): _rates(0.99, 0.83, 0.82),
}
"""EDFs from low-variance, unimodal demonstrations."""

MIXED_RATES = {
    ("mug", "poses"): _rates(1.00, 0.99, 0.99),
    ("mug", "instances"): _rates(1.00, 0.92, 0.92),
    ("mug", "distractors"): _rates(0.96, 0.99, 0.95),
    ("mug", "all"): _rates(0.90, 0.89, 0.80),
}
"""EDFs from demonstrations with rim and handle grasps."""

NDF_RATES = {
    ("mug", "poses"): _rates(0.97, 0.72, 0.70),
    ("bottle", "poses"): _rates(0.94, 0.86, 0.81),
}
"""Neural Descriptor Fields with segmented objects, in their own world: objects in any pose."""

NDF_UNSEGMENTED_RATES = {
    ("mug", "poses"): _rates(0.37, 0.00, 0.00),
    ("bottle", "poses"): _rates(0.00, 0.00, 0.00),
}
"""The same with the whole cloud instead of the object."""

SECONDS = {
    "mug": {"pick": 5.1, "place": 8.3},
    "bowl": {"pick": 5.2, "place": 10.4},
    "bottle": {"pick": 5.2, "place": 11.5},
}
"""Inference by task and step, on an RTX 3090 and an i9-12900k."""

TYPE0_FAST_SECONDS = {
    "mug": {"pick": 5.7, "place": 8.6},
    "bowl": {"pick": 6.1, "place": 9.9},
    "bottle": {"pick": 5.8, "place": 17.3},
}
TYPE0_SLOW_SECONDS = {
    "mug": {"pick": 10.0, "place": 14.5},
    "bowl": {"pick": 13.9, "place": 19.4},
    "bottle": {"pick": 10.9, "place": 24.2},
}

TRAINING_HOURS = {"pick": 5.5, "place": 8.5}
"""Training by step, for each of the three tasks."""
