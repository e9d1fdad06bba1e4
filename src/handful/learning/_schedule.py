"""The learning rate as a function of the step, so that a resumed run needs no memory of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from handful.errors import OptionError


@dataclass(frozen=True)
class Schedule:
    """A linear rise, then half a cosine down.

    Attributes:
        peak: Highest learning rate.
        warmup: Share of the steps in which it rises.
        floor: Last learning rate, as a share of the peak.
    """

    peak: float = 2e-2
    warmup: float = 0.1
    floor: float = 0.02

    def __post_init__(self) -> None:
        if not (0 < self.peak < math.inf and 0 <= self.warmup < 1 and 0 <= self.floor <= 1):
            raise OptionError(
                f"schedule peak {self.peak}, warmup {self.warmup}, floor {self.floor}: need a "
                "positive peak and shares between 0 and 1."
            )

    def rate(self, step: int, steps: int) -> float:
        """Learning rate of step 0 <= step < steps."""
        place = (step + 1) / steps
        if place < self.warmup:
            return self.peak * place / self.warmup
        fall = (place - self.warmup) / (1.0 - self.warmup)
        return self.peak * (self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * fall)))
