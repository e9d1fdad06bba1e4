"""Search: how finely, and where, a predictor looks for poses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from torch import Tensor

from handful._checks import real_number, whole_number
from handful.clouds import Box
from handful.errors import OptionError
from handful.models import MatchEnergy, QueryPoints
from handful.sampling import ExhaustiveSearch, near_points

DENSEST = 2e9
"""Poses of a lattice in a cubic metre, at most: fifty times as many as by default."""


@dataclass(frozen=True)
class SearchConfig:
    """How finely a predictor looks for poses.

    Attributes:
        spacing: Distance of neighbouring positions of the lattice, metres.
        rotations: Number of rotations of the lattice.
        starts: How many of its minima refinement begins with, at least. The best quarter goes on
            after each step, so that many starts cost little; few miss narrow minima
            (`ExhaustiveSearch`).
        refine_steps: Most steps of refinement.
        reach: Query points farther than this from every point of the scene are not tried, metres.
    """

    spacing: float = 0.025
    rotations: int = 700
    starts: int = 256
    refine_steps: int = 8
    reach: float = 0.03

    def __post_init__(self) -> None:
        real_number("search spacing", self.spacing, 1e-3, 10.0)
        real_number("search reach", self.reach, 1e-3, 10.0)
        whole_number("search rotations", self.rotations, 1, 20_000)
        whole_number("search starts", self.starts, 1, 10_000)
        whole_number("search refine_steps", self.refine_steps, 1, 1_000)
        density = self.rotations / self.spacing**3
        if density > DENSEST:
            raise OptionError(
                f"search spacing {self.spacing} m and {self.rotations} rotations are "
                f"{density:.2g} poses in a cubic metre: need at most {DENSEST:.0g}."
            )

    def rules(self) -> ExhaustiveSearch:
        """The search, wherever."""
        return ExhaustiveSearch(
            spacing=self.spacing,
            rotations=self.rotations,
            starts=self.starts,
            refine_steps=self.refine_steps,
        )

    def sampler(self, energy: MatchEnergy) -> ExhaustiveSearch:
        """The search around the points of an energy's scene."""
        return replace(self.rules(), mask=near_points(scene_points(energy), self.reach))

    def workspace(self, energy: MatchEnergy) -> Box:
        """Where the center of the query points may go; see `domain`."""
        return self.domain(scene_points(energy).numpy(), energy.queries)

    def domain(self, points: Float[np.ndarray, "points 3"], queries: QueryPoints) -> Box:
        """Where the center of the query points may go, such that the strongest may go anywhere.

        Samplers bound the center of the query points. One weak point on the hand, far from the
        others, would otherwise keep the strong ones from the table.
        """
        strongest = queries.positions[queries.weights.argmax()].detach()
        spread = float((strongest - queries.center).norm())
        return Box.around(points, self.reach + spread)


def scene_points(energy: MatchEnergy) -> Float[Tensor, "points 3"]:
    """The points of the cloud that an energy's key field was computed from."""
    points: Tensor = energy.field.encoded.points  # type: ignore[attr-defined]
    return points
