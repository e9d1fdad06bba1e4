"""Ten different shapes from ranges of numbers: a seeded Latin hypercube."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

INSTANCES = 731
"""Key of the stream that shapes are drawn from; no episode uses it."""


def spread(
    ranges: Mapping[str, tuple[float, float]], count: int, key: int
) -> list[dict[str, float]]:
    """`count` sets of numbers, each range divided evenly among them, so that all clearly differ.

    Args:
        ranges: Lowest and highest value of each number.
        count: How many sets.
        key: The same key gives the same numbers.
    """
    rng = np.random.default_rng(np.random.SeedSequence([INSTANCES, key]))
    best: Float[np.ndarray, "count names"] = np.zeros((count, len(ranges)))
    nearest = -1.0
    for _ in range(40):
        columns = [(rng.permutation(count) + rng.uniform(0.2, 0.8, count)) / count for _ in ranges]
        share = np.stack(columns, axis=1)
        gaps = np.linalg.norm(share[:, None] - share[None], axis=2) + 9.0 * np.eye(count)
        if gaps.min() > nearest:
            best, nearest = share, float(gaps.min())
    return [
        {
            name: low + float(value) * (high - low)
            for (name, (low, high)), value in zip(ranges.items(), row, strict=True)
        }
        for row in best
    ]


def random_color(rng: np.random.Generator) -> tuple[float, float, float]:
    """A colour that is neither black nor the table's grey."""
    from colorsys import hsv_to_rgb

    return hsv_to_rgb(rng.uniform(), rng.uniform(0.45, 0.95), rng.uniform(0.5, 0.95))
