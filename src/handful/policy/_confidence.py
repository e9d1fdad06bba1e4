"""Confidence: how sure one may be that a pose of some energy is on a target that is there.

Energies have no zero of their own, so they are compared with what scenes made up from the
demonstrations give: where the target is seen, and where it is cut out or something else stands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from handful._checks import shown
from handful.errors import OptionError

SURE_ENOUGH = 0.5
"""A best pose of lower confidence means: no target found."""

LEAST_CONFIDENCE = 0.2
"""Poses of lower confidence are not executed, unless a user asks for it: the default of `run_task`
and of the benchmark; 0 executes whatever is best. It is lower than `SURE_ENOUGH` because objects of
new shapes have higher energies than the made-up ones that the curve was fitted to."""
PRESENT = 0.8
"""Share of the scenes in which the target is there: robots are mostly sent where it is."""

NEWTON_STEPS = 25
"""Steps of Newton's method when a curve is fitted; it takes five to eight."""
RIDGE = 1e-4
"""Weight of the squares of slope and offset in the fit: keeps it finite."""
CLEARLY = 3.0
"""Standard deviations between the threshold and energies that were all right, or all wrong."""
PRIOR = np.array([0.5, 1.0])
"""Standard deviations of slope and offset of a correction before anything is seen. An offset of 1
is what makes 0.5 of 0.27 or 0.73."""
LEAST_SLOPE = 0.05
"""Of a correction: lower energies are never worse."""
SUREST = 1e-3
"""Confidences nearer than this to 0 or 1 say no more: their logits would outweigh all others."""
FLATTEST = 0.05
"""Least slope of the logit, for each standard deviation of the energies, that says anything."""


@dataclass(frozen=True)
class Confidence:
    """A logistic curve: one far below `threshold`, a half there, zero far above.

    Demonstrations that a model has not seen may correct it (`corrected`): its logit z becomes
    `slope` z + `offset`.

    Attributes:
        threshold: Energy of confidence 0.5, before the correction.
        scale: Energy over which the odds change by a factor e, before the correction.
        slope: Of the correction; 1 for none.
        offset: Of the correction; 0 for none.
    """

    threshold: float
    scale: float
    slope: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.threshold) and 0 < self.scale < math.inf):
            raise OptionError(
                f"confidence threshold {self.threshold}, scale {self.scale}: need numbers, the "
                "scale positive."
            )
        if not (math.isfinite(self.offset) and 0 < self.slope < math.inf):
            raise OptionError(
                f"confidence slope {self.slope}, offset {self.offset}: need numbers, the slope "
                "positive."
            )

    def of(self, energies: Float[np.ndarray, "poses"]) -> Float[np.ndarray, "poses"]:
        """Confidence of poses of these energies, 0 to 1."""
        logit = self.slope * (self.threshold - energies) / self.scale + self.offset
        return 1.0 / (1.0 + np.exp(np.clip(-logit, -700, 700)))

    @classmethod
    def fitted(
        cls,
        energies: Float[np.ndarray, "n"],
        right: Bool[np.ndarray, "n"],
        present: float = PRESENT,
    ) -> Confidence:
        """The most likely curve for poses of some energies that were right or wrong.

        Platt's way: labels are (n+ + 1) / (n+ + 2) and 1 / (n- + 2) instead of 1 and 0, so that the
        curve of kinds that do not overlap is not a step. The kinds weigh as `present` says, so that
        it does not depend on how many of each were tried. Where low energies are not the right
        ones, all confidences are about a half.

        Args:
            energies: Of the best poses.
            right: Which of them were on a target.
            present: Share of right ones that is expected, between 0 and 1.
        """
        if not len(energies) or not np.isfinite(energies).all():
            raise OptionError("a confidence curve needs finite energies of one pose or more.")
        spread = max(float(energies.std()), 1e-9)
        if right.all():  # Whatever has such an energy is right.
            return cls(float(energies.max()) + CLEARLY * spread, spread)
        if not right.any():
            return cls(float(energies.min()) - CLEARLY * spread, spread)
        middle = float(energies.mean())
        x = (energies - middle) / spread
        good, bad = int(right.sum()), int((~right).sum())
        label = np.where(right, (good + 1) / (good + 2), 1 / (bad + 2))
        weight = np.where(right, present / good, (1.0 - present) / bad)
        slope, offset = _logistic(x, label, weight, np.full(2, RIDGE), np.zeros(2))
        if slope > -FLATTEST:  # Higher energies are no worse: nothing can be told.
            return cls(middle, spread / FLATTEST)
        return cls(middle - spread * offset / slope, -spread / slope)

    def corrected(
        self,
        confidences: Float[np.ndarray, "n"],
        right: Bool[np.ndarray, "n"],
        present: float = PRESENT,
    ) -> Confidence:
        """The curve, corrected by how often confidences were right that curves like it gave.

        The most likely slope and offset of the logit, where they are normal about 1 and 0 with
        the deviations `PRIOR` before anything is seen: a handful of demonstrations moves the curve
        a little, and many of them make a curve of their own. The kinds weigh as in `fitted`. An
        earlier correction is replaced.

        Args:
            confidences: That curves without a correction gave to best poses: of this model or of
                models that were trained alike, in scenes that these had not seen.
            right: Which of the poses were on a target.
            present: Share of right ones that is expected, between 0 and 1.
        """
        if not len(confidences) or not np.isfinite(confidences).all():
            raise OptionError("a correction needs finite confidences of one pose or more.")
        z = np.log(confidences.clip(SUREST, 1.0 - SUREST) / (1.0 - confidences).clip(SUREST))
        good, bad = int(right.sum()), int((~right).sum())
        weight = np.ones(len(z))
        if good and bad:
            weight = len(z) * np.where(right, present / good, (1.0 - present) / bad)
        ridge = 1.0 / np.square(PRIOR)
        slope, offset = _logistic(z, right.astype(np.float64), weight, ridge, np.array([1.0, 0.0]))
        return replace(self, slope=max(slope, LEAST_SLOPE), offset=offset)


def check_least_confidence(value: float) -> None:
    """Refuse what is no confidence.

    Raises:
        OptionError: It is not between 0 and 1.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0.0 <= value <= 1.0):
        raise OptionError(
            f"least confidence is {shown(value)}: need 0 (execute whatever is best) to 1."
        )


def _logistic(
    x: Float[np.ndarray, "n"],
    label: Float[np.ndarray, "n"],
    weight: Float[np.ndarray, "n"],
    ridge: Float[np.ndarray, "2"],
    prior: Float[np.ndarray, "2"],
) -> tuple[float, float]:
    """Slope and offset of the logit that minimise the weighted cross entropy; Newton's method.

    Half of `ridge` times the squared distance from `prior` is added.
    """
    rows = np.stack([x, np.ones_like(x)], axis=1)
    found = np.zeros(2)  # where the bend is largest: no step is too long
    for _ in range(NEWTON_STEPS):
        p = 1.0 / (1.0 + np.exp(-np.clip(rows @ found, -30, 30)))
        slope = rows.T @ (weight * (p - label)) + ridge * (found - prior)
        bend = (rows.T * (weight * p * (1.0 - p))) @ rows + np.diag(ridge)
        step = np.linalg.solve(bend, slope)
        found = found - step * min(1.0, 4.0 / max(float(np.abs(step).max()), 1e-12))
    return float(found[0]), float(found[1])
