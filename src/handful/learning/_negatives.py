"""The likelihood of demonstrated poses, told from the poses that compete with them.

With weights that add up to one, E = sum_i w_i E_i is a mean of the energies of single query
points, and Hölder's inequality bounds the partition function of all of them by those of each
alone:

    Z = ∫ Π_i exp(-E_i)^{w_i} dT  <=  Π_i Z_i^{w_i},    Z_i = ∫ exp(-E_i) dT.

So sum_i w_i (E_i(T) + log Z_i) is an upper bound of -log P(T) (eq. MLE): exact for one query
point, and tight when the query points agree. Each Z_i is a sum over a lattice of positions x = T
q_i and of rotations that comes from one matrix product (`handful.sampling`). The paper needs
thousands of Markov chain steps for every gradient; `LatticeNegatives` needs none.
`SampledNegatives` is the paper's way, with any sampler.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from handful.clouds import Box
from handful.errors import OptionError
from handful.geometry import pose_to_rotation_translation, rotation_apply
from handful.models import EncodedCloud, MatchEnergy
from handful.sampling import (
    Langevin,
    MetropolisHastings,
    PaperSchedule,
    PoseLattice,
    Sampler,
    lattice_log_partitions,
    near_points,
    pose_lattice,
)


@dataclass(frozen=True, eq=False)
class Likelihood:
    """How a model finds the demonstrated poses.

    Attributes:
        loss: What to lower; its gradient is that of -log P, or of a bound of it.
        target_energy: Mean energy of the demonstrated poses.
        negative_energy: Energy of what competes with them; a soft minimum on a lattice.
    """

    loss: Float[Tensor, ""]
    target_energy: float
    negative_energy: float


@runtime_checkable
class Negatives(Protocol):
    """The poses that demonstrated ones are told from."""

    def likelihood(
        self,
        energy: MatchEnergy,
        poses: Float[Tensor, "poses 4 4"],
        scene: EncodedCloud,
        generator: torch.Generator,
    ) -> Likelihood:
        """The likelihood of demonstrated poses T_scene_gripper."""
        ...


@dataclass(frozen=True)
class LatticeNegatives:
    """All poses of a lattice: exact, with no Markov chain.

    The demonstrated pose is counted as one more pose of the lattice. A model that has become
    sharper than the lattice would otherwise find no competitor at all, and could lower its loss for
    ever. For the same reason a query point that hangs in empty space at the target, where there is
    no lattice, counts as one that knows nothing: all poses are alike to it.

    Attributes:
        spacing: Distance of neighbouring positions, metres.
        rotations: Number of rotations.
        reach: Positions farther than this from every point of the scene are left out, metres.
        learn_weights: Whether weights of query points are learned from how well each does alone.
            Then one point wins in the end, which is well where one is enough, and wrong where only
            several together know an orientation: with descriptors of type 0.
    """

    spacing: float = 0.02
    rotations: int = 300
    reach: float = 0.03
    learn_weights: bool = True

    def __post_init__(self) -> None:
        if not (self.spacing > 0 and self.reach > 0 and self.rotations >= 1):
            raise OptionError(f"{self} needs positive lengths and at least one rotation.")

    def lattice(self, points: Float[Tensor, "points 3"], generator: torch.Generator) -> PoseLattice:
        """A lattice around the points of a scene, shifted and turned at random."""
        return pose_lattice(
            Box.around(points.numpy(), self.reach),
            self.spacing,
            self.rotations,
            generator,
            dtype=points.dtype,
            keep=near_points(points, self.reach),
        )

    def likelihood(
        self,
        energy: MatchEnergy,
        poses: Float[Tensor, "poses 4 4"],
        scene: EncodedCloud,
        generator: torch.Generator,
    ) -> Likelihood:
        """The bound above, on a new lattice."""
        lattice = self.lattice(scene.points, generator)
        at_target = query_energies(energy, poses)
        log_sums = lattice_log_partitions(energy, lattice) - lattice.log_cell
        losses = query_losses(at_target, log_sums)
        far = is_far(energy.queries.positions, poses, scene, self.reach)
        far &= ~far.all(1, keepdim=True)  # something must be learned from every pose
        knows_nothing = math.log(len(lattice.positions) * len(lattice.rotations))
        weights = energy.queries.weights
        if not self.learn_weights:
            weights = weights.detach()
        loss = (torch.where(far, knows_nothing, losses).mean(0) * weights).sum()
        with torch.no_grad():
            target = float((at_target.mean(0) * weights).sum())
            return Likelihood(loss, target, -float((log_sums * weights).sum()))


@dataclass(frozen=True)
class SampledNegatives:
    """Poses drawn from the model itself (eq. MLE): any sampler, for example the paper's.

    The loss is the mean energy of the demonstrated poses less that of the negatives. Its gradient
    is an estimate of that of -log P; its value is not.

    Attributes:
        sampler: What draws them.
        count: How many.
        margin: The workspace of the query points ends so far outside of the scene's points, metres.
    """

    sampler: Sampler = field(
        default_factory=lambda: PaperSchedule(
            metropolis=MetropolisHastings(steps=10_000),
            langevin=Langevin(steps=3_000),
            descent=None,
        )
    )
    count: int = 32
    margin: float = 0.03

    def __post_init__(self) -> None:
        if self.count < 1 or not self.margin >= 0:
            raise OptionError(f"negatives {self.count}, margin {self.margin}: need 1, 0 or more.")

    def likelihood(
        self,
        energy: MatchEnergy,
        poses: Float[Tensor, "poses 4 4"],
        scene: EncodedCloud,
        generator: torch.Generator,
    ) -> Likelihood:
        """Contrast the poses with a new sample."""
        workspace = Box.around(scene.points.numpy(), self.margin)
        drawn = self.sampler.sample(energy, workspace, self.count, generator)
        shares = torch.full((len(drawn),), 1.0 / len(drawn))
        if drawn.log_weights is not None:
            shares = drawn.log_weights.exp()
        target = energy(poses).mean()
        negative = (energy(drawn.poses) * shares.to(target)).sum()
        return Likelihood(target - negative, target.item(), negative.item())


def query_energies(
    energy: MatchEnergy, poses: Float[Tensor, "poses 4 4"]
) -> Float[Tensor, "poses queries"]:
    """E_i(T) of every query point by itself, without its weight."""
    rotation, translation = pose_to_rotation_translation(poses)
    where = rotation_apply(rotation, energy.queries.positions) + translation[:, None]
    keys = energy.field(where.flatten(0, 1)).unflatten(0, where.shape[:2])
    turned = energy.types.rotated(energy.queries.descriptors, rotation[:, None])
    return energy.mismatch(keys - turned) / energy.temperature


def query_losses(
    energies: Float[Tensor, "poses queries"], log_sums: Float[Tensor, "queries"]
) -> Float[Tensor, "poses queries"]:
    """How unlikely each query point by itself finds poses: -log of their share of the lattice.

    Args:
        energies: E_i(T) of the poses.
        log_sums: Log of the sum of exp(-E_i) over the lattice, which the pose itself joins.
    """
    return torch.nn.functional.softplus(energies + log_sums)


def is_far(
    positions: Float[Tensor, "queries 3"],
    poses: Float[Tensor, "poses 4 4"],
    scene: EncodedCloud,
    reach: float,
) -> Bool[Tensor, "poses queries"]:
    """Which query points are `reach` or more from every point of the scene at which pose."""
    rotation, translation = pose_to_rotation_translation(poses)
    where = rotation_apply(rotation, positions.detach()) + translation[:, None]
    distance = torch.from_numpy(scene.index.distance(where.flatten(0, 1).cpu().numpy()))
    return (distance >= reach).unflatten(0, where.shape[:2]).to(positions.device)
