"""The paper's inference schedule as a preset."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from handful.sampling._sampler import Draw, Kernel
from handful.sampling._target import Target

from ._descent import Descent
from ._langevin import Langevin
from ._metropolis import MetropolisHastings


@dataclass(frozen=True, kw_only=True)
class PaperSchedule(Kernel):
    """1000 steps of Metropolis-Hastings, 300 of Langevin, 100 without noise (appendix exp).

    The numbers of steps are the paper's for inference. In training it takes 10,000 steps of
    Metropolis-Hastings and 3,000 to 6,000 of Langevin. The sizes of the steps, the limits of drift
    and step, the workspace and the reference point are ours: the paper gives none of them. The
    classes of the three parts say where they differ from it.

    The acceptance rate and effective sample size in the report are those of Metropolis-Hastings.
    All three parts use the `reference` of the schedule; the parts' own values are not read.

    Attributes:
        metropolis: The first part, which explores.
        langevin: The second part, which moves along the gradient.
        descent: The last part, without noise. With None the poses stay a sample, as training needs.
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
