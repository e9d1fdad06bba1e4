"""Confidence: how sure one may be that a pose of some energy is on a target that is there.

Energies have no zero of their own, so they are compared with what the training demonstrations give:
the best poses where the target is seen, and where it is cut out or something else stands there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.errors import OptionError

SURE_ENOUGH = 0.5
"""A best pose of lower confidence means: no target found."""

LEAST_CONFIDENCE = SURE_ENOUGH
"""Poses of lower confidence are not executed, unless a user asks for it: the default of `run_task`
and of the benchmark. Change it here; 0 executes whatever is best."""

TOWARDS_WITHOUT = 0.7
"""Where the threshold lies between scenes with target, 0, and scenes without, 1."""

SOFTNESS = 8.0
"""By how much the logit of the confidence falls from scenes with target to scenes without."""


@dataclass(frozen=True)
class Confidence:
    """A logistic curve: one far below `threshold`, a half there, zero far above.

    Attributes:
        threshold: Energy of confidence 0.5.
        scale: Energy over which the odds change by a factor e.
    """

    threshold: float
    scale: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.threshold) and 0 < self.scale < math.inf):
            raise OptionError(
                f"confidence threshold {self.threshold}, scale {self.scale}: need numbers, the "
                "scale positive."
            )

    def of(self, energies: Float[np.ndarray, "poses"]) -> Float[np.ndarray, "poses"]:
        """Confidence of poses of these energies, 0 to 1."""
        return 1.0 / (1.0 + np.exp(np.clip((energies - self.threshold) / self.scale, -700, 700)))

    @classmethod
    def between(
        cls, with_target: Float[np.ndarray, "n"], without: Float[np.ndarray, "m"]
    ) -> Confidence:
        """The curve from the best energies of training scenes with and without their target.

        A model knows its training scenes by heart and gives them lower energies than new ones. So
        the threshold is not half of the way from the one kind to the other but `TOWARDS_WITHOUT`;
        and the other kind stands where the quarter begins that looks most like the target.
        Where the two kinds cannot be told apart, all confidences are about a half.
        """
        everything = np.concatenate([with_target, without])
        if not np.isfinite(everything).all() or not len(with_target) or not len(without):
            raise OptionError("a confidence curve needs finite energies with and without target.")
        seen, empty = float(np.median(with_target)), float(np.quantile(without, 0.25))
        gap = empty - seen
        noise = max(float(with_target.std()), float(without.std()), 1e-6)
        if gap <= noise:
            return cls(seen, SOFTNESS * noise)
        return cls(seen + TOWARDS_WITHOUT * gap, gap / SOFTNESS)
