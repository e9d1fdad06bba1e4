"""The likelihood of demonstrated poses under the joint energy of several query points.

Descriptors of type 0 do not turn with a pose: one query point says where it wants to be, and only
several together say which way the gripper is turned. The bound of `LatticeNegatives`, which takes
each query point by itself, teaches them nothing about that. Here poses compete by the energy of all
query points together.

K poses T_k are drawn from a proposal Q made of the joint energies on a lattice. The docstring of
`ExhaustiveSampler` says why the weights exp(-E) / Q are exact: their mean is an unbiased estimate
of the partition function over the workspace. Its gradient is one of that of the partition function:
the draws are held fixed, and their energies are computed once more with gradients. As with
`LatticeNegatives`, the target itself joins as one more pose of the lattice, and poses near it
compete besides: the loss is bounded, and millimetres are learned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from handful.clouds import Box
from handful.errors import OptionError
from handful.learning._near_target import NearTarget
from handful.learning._negatives import Likelihood, query_losses
from handful.models import EncodedCloud, MatchEnergy
from handful.sampling import ExhaustiveSampler, near_points


@dataclass(frozen=True)
class JointNegatives:
    """Poses drawn by the energy of all query points together; see the text of this module.

    Attributes:
        spacing: Side of the cubes of the lattice, metres.
        rotations: Number of its rotations.
        draws: Poses that are drawn.
        reach: Query points farther than this from every point of the scene are not on the lattice,
            metres.
        uniform_share: Share of the draws that lie anywhere in the workspace.
        near: Poses near the target that compete besides.
    """

    spacing: float = 0.025
    rotations: int = 150
    draws: int = 160
    reach: float = 0.03
    uniform_share: float = 0.1
    near: NearTarget = field(default_factory=NearTarget)

    def __post_init__(self) -> None:
        if not (self.spacing > 0 and self.reach > 0 and min(self.rotations, self.draws) >= 1):
            raise OptionError(f"{self} needs positive lengths and numbers.")

    @property
    def log_cell(self) -> float:
        """Log of the volume of dR d³x that one pose of the lattice stands for, ∫dR = 1."""
        return 3.0 * math.log(self.spacing) - math.log(self.rotations)

    def likelihood(
        self,
        energy: MatchEnergy,
        poses: Float[Tensor, "poses 4 4"],
        scene: EncodedCloud,
        generator: torch.Generator,
        progress: float = 0.0,
    ) -> Likelihood:
        """The contrast of demonstrated poses with poses that are drawn anew."""
        log_sum = self.log_partition(energy, scene, generator) - self.log_cell
        at_target = energy(poses)
        peak = self.near.log_share(at_target.new_tensor(self.near.log_peak), self.log_cell)
        with_near = torch.stack(
            [self._with_near(log_sum, energy, pose, generator) for pose in poses]
        )
        losses = query_losses(at_target[:, None], with_near[:, None], peak)
        return Likelihood(losses.mean(), at_target.mean().item(), -log_sum.item())

    def log_partition(
        self, energy: MatchEnergy, scene: EncodedCloud, generator: torch.Generator
    ) -> Float[Tensor, ""]:
        """Estimate of log ∫ exp(-E) dR d³x around the scene, with its gradient."""
        sampler = ExhaustiveSampler(
            spacing=self.spacing,
            rotations=self.rotations,
            draws=self.draws,
            correction="weights",
            uniform_share=self.uniform_share,
            mask=near_points(scene.points, self.reach),
        )
        workspace = Box.around(scene.points.numpy(), self.reach)
        drawn = sampler.sample(energy, workspace, self.draws, generator)
        assert drawn.log_weights is not None
        assert drawn.report.log_partition is not None
        again = energy(drawn.poses)
        moved = (drawn.log_weights.to(again) - (again - again.detach())).logsumexp(0)
        return moved + drawn.report.log_partition

    def _with_near(
        self,
        log_sum: Float[Tensor, ""],
        energy: MatchEnergy,
        pose: Float[Tensor, "4 4"],
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Log of the sum of exp(-E) over the lattice and over poses near a target."""
        if self.near.count == 0:
            return log_sum
        around, log_density = self.near.draw(pose, energy.queries.center, generator)
        share = self.near.log_share(log_density, self.log_cell)
        return torch.logaddexp(log_sum, (-energy(around) - share).logsumexp(0))
