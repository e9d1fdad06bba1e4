"""The likelihood of demonstrated poses, told from the poses that compete with them.

What is lowered, and what it bounds. With weights that add up to one, E = sum_i w_i E_i is a mean of
the energies of single query points. Let D be the part of space within `reach` of the scene's
points, and D_i the poses T that bring query point i into D. Hölder's inequality bounds the
partition function over the poses that bring all query points into D by those of each alone:

    Z = ∫_{∩D_i} Π_i exp(-E_i)^{w_i} dT  <=  Π_i Z_i^{w_i},    Z_i = ∫_{D_i} exp(-E_i) dT.

The sum over i of w_i (E_i(T) + log Z_i) is therefore an upper bound of -log P(T) (eq. MLE), where P
is the model restricted to ∩D_i. For one query point it is equal; for several it is tight when they
agree. Poses in empty space do not compete: the restricted P is larger than that over all poses of
a box, and the difference is what the model would give to empty space.

`LatticeNegatives` estimates each Z_i by a sum over a lattice of positions x = T q_i and of
rotations, which comes from one matrix product (`handful.sampling`). The lattice is shifted and
turned at random, which makes the sum an unbiased estimate of Z_i. Its logarithm is not: by Jensen's
inequality E[log Z_lattice] <= log Z, so the loss is too low on average, the more the coarser the
lattice is in comparison with the modes of the model. The demonstrated pose is counted as one more
pose of the lattice, which raises the loss: it can then not fall below zero, and a model that is
sharper than the lattice still has a competitor, itself. With that, the loss is the contrastive one
of a classifier that picks the demonstrated pose out of the lattice.

The lattice is coarse: 2.5 cm and about 40 degrees. A model that is a centimetre off is hardly
punished, since no lattice pose is near enough to be more likely. Therefore K poses drawn around the
target compete as well (`NearTarget`). With q the density that they are drawn from, a lattice pose
stands for one part in 1 / cell of a volume and a near one for one part in 1 / cell + K q (the
balance heuristic of multiple importance sampling, but for the lattice, whose poses near the target
are counted in full). The mean of the sum is then between Z and 2 Z, and the loss is an upper bound
of -log P as before, up to Jensen's bias, which is smaller: where the model is sharp there are now
poses to see it. The target itself counts like a pose drawn at the peak of q: the loss may fall to
-log(1 + K q cell), about -5, where the lattice alone ended at zero.

Near poses show how wide the mode at the target is. Modes elsewhere may be as narrow, and the
lattice passes between them. Therefore minima that a short search finds compete as well (`Rivals`).
Each counts as a mode that is as wide as the target's: exp(-E_i) times the sum over the near poses
and the target in units of exp(-E_i) of the target, and one lattice pose at most. By Hölder's
inequality for sums, this part is bounded by single query points like the others. Poses that are as
right as the demonstrated one are among these minima, as they are among the poses of the lattice.

The paper needs thousands of Markov chain steps for every gradient. `SampledNegatives` does that
with any sampler, and `PaperNegatives` with the paper's numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from handful.clouds import Box
from handful.errors import OptionError
from handful.geometry import pose_to_rotation_translation, rotation_apply
from handful.learning._near_target import NearTarget
from handful.learning._rivals import Minima, Rivals
from handful.models import EncodedCloud, Field, MatchEnergy
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
        minima: What a search found, where one was made.
    """

    loss: Float[Tensor, ""]
    target_energy: float
    negative_energy: float
    minima: Minima | None = None


@runtime_checkable
class Negatives(Protocol):
    """The poses that demonstrated ones are told from."""

    def likelihood(
        self,
        energy: MatchEnergy,
        poses: Float[Tensor, "poses 4 4"],
        scene: EncodedCloud,
        generator: torch.Generator,
        progress: float,
    ) -> Likelihood:
        """The likelihood of demonstrated poses; `progress` from 0 to 1 is how far training is."""
        ...


@dataclass(frozen=True)
class LatticeNegatives:
    """All poses of a lattice, without a Markov chain; see the text of this module.

    Weights of query points are learned from how well each does alone. Then one point wins in the
    end, which is well where one is enough, and wrong where only several together know an
    orientation, with descriptors of type 0: `JointNegatives` is for those.

    A query point that is in empty space at the target, where there is no lattice, has no
    competitors. It counts as one that knows nothing: all poses are alike to it.

    Attributes:
        spacing: Distance of neighbouring positions, metres.
        rotations: Number of rotations.
        reach: Positions farther than this from every point of the scene are left out, metres.
        near: Poses near the target that compete besides.
        rivals: Minima elsewhere that compete besides.
    """

    spacing: float = 0.025
    rotations: int = 300
    reach: float = 0.03
    near: NearTarget = field(default_factory=NearTarget)
    rivals: Rivals = field(default_factory=Rivals)

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
            mask=near_points(points, self.reach),
        )

    def likelihood(
        self,
        energy: MatchEnergy,
        poses: Float[Tensor, "poses 4 4"],
        scene: EncodedCloud,
        generator: torch.Generator,
        progress: float = 0.0,
    ) -> Likelihood:
        """The bound above, on a new lattice."""
        lattice = self.lattice(scene.points, generator)
        if isinstance(energy.field, Field):
            energy.field.tabulate()  # a lattice needs it anyway
        log_sums = lattice_log_partitions(energy, lattice) - lattice.log_cell
        near, shares = self._near(poses, energy, lattice.log_cell, generator)
        minima, rivals = None, poses[:0]
        if self.rivals.wanted(progress, generator):
            minima = self._minima(energy, poses, scene, generator)
            rivals = minima.rivals
        # All in one go: each look at a field has derivatives as large as all of the scene's.
        at_target, beside, elsewhere = energy.per_query(
            torch.cat([poses, near.flatten(0, 1), rivals])
        ).split([len(poses), near.shape[0] * near.shape[1], len(rivals)])
        peak = self.near.log_share(at_target.new_tensor(self.near.log_peak), lattice.log_cell)
        # Log of the sums of exp(-E_i) beside each target, in units of lattice poses.
        log_near = (-beside.unflatten(0, shares.shape) - shares[..., None]).logsumexp(1)
        competing = torch.logaddexp(log_sums, log_near)
        if minima is not None:
            width = torch.logaddexp(log_near + at_target, -peak).detach().clamp(max=0.0)
            competing = torch.logaddexp(competing, (-elsewhere).logsumexp(0) + width)
        losses = query_losses(at_target, competing, peak)
        far = distance_to_scene(energy.queries.positions, poses, scene) >= self.reach
        far &= ~far.all(1, keepdim=True)  # something must be learned from every pose
        knows_nothing = math.log(len(lattice.positions) * len(lattice.rotations))
        weights = energy.queries.weights
        loss = (torch.where(far, knows_nothing, losses).mean(0) * weights).sum()
        with torch.no_grad():
            target = float((at_target.mean(0) * weights).sum())
            return Likelihood(loss, target, -float((log_sums * weights).sum()), minima)

    def _near(
        self,
        poses: Float[Tensor, "targets 4 4"],
        energy: MatchEnergy,
        log_cell: float,
        generator: torch.Generator,
    ) -> tuple[Float[Tensor, "targets near 4 4"], Float[Tensor, "targets near"]]:
        """Poses near each target, and how much less than a lattice pose each counts (its log)."""
        if self.near.count == 0:
            return poses.new_zeros(len(poses), 0, 4, 4), poses.new_zeros(len(poses), 0)
        drawn = [self.near.draw(pose, energy.queries.center, generator) for pose in poses]
        shares = [self.near.log_share(log_density, log_cell) for _, log_density in drawn]
        return torch.stack([near for near, _ in drawn]), torch.stack(shares)

    def _minima(
        self,
        energy: MatchEnergy,
        poses: Float[Tensor, "poses 4 4"],
        scene: EncodedCloud,
        generator: torch.Generator,
    ) -> Minima:
        """What a search finds, with the model as it is."""
        return self.rivals.find(
            energy.detached(), poses, scene, self.reach, self.spacing, self.rotations, generator
        )


@dataclass(frozen=True)
class SampledNegatives:
    """Poses drawn from the model itself (eq. MLE) by any sampler.

    The loss is the mean energy of the demonstrated poses less that of the negatives. Its gradient
    is an estimate of that of -log P; its value is not.

    Attributes:
        sampler: What draws them.
        count: How many.
        margin: How far outside of the scene's points the workspace of the query points ends,
            metres.
    """

    sampler: Sampler
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
        progress: float = 0.0,
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


@dataclass(frozen=True)
class PaperNegatives:
    """The paper's negatives: Metropolis-Hastings, then Langevin steps that grow in number.

    Attributes:
        metropolis_steps: Steps of Metropolis-Hastings.
        langevin_steps: Steps of Langevin dynamics at the beginning and at the end of training; they
            grow linearly.
        count: How many poses are drawn.
    """

    metropolis_steps: int = 10_000
    langevin_steps: tuple[int, int] = (3_000, 6_000)
    count: int = 32

    def sampler(self, progress: float) -> PaperSchedule:
        """The chains at some point of training, `progress` from 0 to 1."""
        first, last = self.langevin_steps
        return PaperSchedule(
            metropolis=MetropolisHastings(steps=self.metropolis_steps),
            langevin=Langevin(steps=round(first + (last - first) * progress)),
            descent=None,
        )

    def likelihood(
        self,
        energy: MatchEnergy,
        poses: Float[Tensor, "poses 4 4"],
        scene: EncodedCloud,
        generator: torch.Generator,
        progress: float = 0.0,
    ) -> Likelihood:
        """Contrast the poses with a new sample."""
        negatives = SampledNegatives(self.sampler(progress), self.count)
        return negatives.likelihood(energy, poses, scene, generator, progress)


def query_losses(
    energies: Float[Tensor, "poses queries"],
    log_sums: Float[Tensor, "*poses queries"],
    log_share: Float[Tensor, ""] | None = None,
) -> Float[Tensor, "poses queries"]:
    """How unlikely each query point by itself finds poses: -log of their share of all poses.

    Args:
        energies: E_i(T) of the poses.
        log_sums: Log of the sum of exp(-E_i) over what competes with a pose, which itself joins.
        log_share: How much less the pose itself counts than one of the others, as a logarithm;
            not less if left out.
    """
    own = energies.new_zeros(()) if log_share is None else -log_share
    return torch.logaddexp(energies + log_sums, own)


def distance_to_scene(
    positions: Float[Tensor, "queries 3"], poses: Float[Tensor, "poses 4 4"], scene: EncodedCloud
) -> Float[Tensor, "poses queries"]:
    """Distance of every query point at every pose from the nearest point of the scene, metres."""
    rotation, translation = pose_to_rotation_translation(poses)
    where = rotation_apply(rotation, positions.detach()) + translation[:, None]
    distance = torch.from_numpy(scene.index.distance(where.flatten(0, 1).cpu().numpy()))
    return distance.unflatten(0, where.shape[:2]).to(positions.device)
