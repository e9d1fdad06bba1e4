"""What the paper reports for its own models: success of pick, place and both.

Tables `sota` (four unseen setups) and `default` (the trained one), rows of EDFs; ten
demonstrations. Inference times from table `ablation`, seconds on a GPU.
"""

from __future__ import annotations

from typing import NamedTuple


class PaperRates(NamedTuple):
    """Success rates; the place is counted among the episodes whose pick succeeded."""

    pick: float
    place: float
    total: float


RATES = {
    ("mug", "trained"): PaperRates(1.00, 0.99, 0.99),
    ("mug", "instances"): PaperRates(1.00, 0.97, 0.97),
    ("mug", "poses"): PaperRates(1.00, 1.00, 1.00),
    ("mug", "distractors"): PaperRates(1.00, 0.98, 0.98),
    ("mug", "all"): PaperRates(1.00, 0.95, 0.95),
    ("bowl", "trained"): PaperRates(1.00, 1.00, 1.00),
    ("bowl", "instances"): PaperRates(0.98, 1.00, 0.98),
    ("bowl", "poses"): PaperRates(1.00, 1.00, 1.00),
    ("bowl", "distractors"): PaperRates(1.00, 1.00, 1.00),
    ("bowl", "all"): PaperRates(0.95, 1.00, 0.95),
    ("bottle", "trained"): PaperRates(0.98, 1.00, 0.98),
    ("bottle", "instances"): PaperRates(1.00, 1.00, 1.00),
    ("bottle", "poses"): PaperRates(0.95, 1.00, 0.95),
    ("bottle", "distractors"): PaperRates(0.99, 1.00, 0.99),
    ("bottle", "all"): PaperRates(0.95, 1.00, 0.95),
}

SECONDS = {"mug": (5.1, 8.3), "bowl": (5.2, 10.4), "bottle": (5.2, 11.5)}
"""Inference of pick and place, on an RTX 3090 and an i9-12900k."""

TRAINING_HOURS = (5.5, 8.5)
"""Training of pick and place."""
