"""The paper's inference schedule as a preset."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from ._descent import Descent
from ._langevin import Langevin
from ._metropolis import MetropolisHastings
from ._sampler import Draw, Kernel
from ._target import Target


@dataclass(frozen=True, kw_only=True)
class PaperSchedule(Kernel):
    """1000 steps of Metropolis-Hastings, 300 of Langevin, 100 without noise (appendix exp).

    The acceptance rate and effective sample size in the report are those of Metropolis-Hastings.
    The `reference` of the schedule holds for its parts; theirs are not used.

    Attributes:
        metropolis: The exploring part.
        langevin: The local part.
        descent: The last part; None leaves a sample, as training needs it.
    """

    metropolis: MetropolisHastings = field(default_factory=lambda: MetropolisHastings(steps=1000))
    langevin: Langevin = field(default_factory=lambda: Langevin(steps=300))
    descent: Descent | None = field(default_factory=lambda: Descent(steps=100))

    def advance(
        self, target: Target, centred: Float[Tensor, "poses 4 4"], generator: torch.Generator
    ) -> Draw:
        """Move centred poses through the three parts."""
        explored = self.metropolis.advance(target, centred, generator)
        settled = self.langevin.advance(target, explored.centred, generator)
        final = settled
        if self.descent is not None:
            final = self.descent.advance(target, settled.centred, generator)
        return Draw(
            final.centred,
            final.energies,
            acceptance_rate=explored.acceptance_rate,
            effective_sample_size=explored.effective_sample_size,
        )
