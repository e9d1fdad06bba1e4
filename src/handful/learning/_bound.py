"""The likelihood of demonstrated poses, exact on a lattice, with no Markov chain.

With weights that add up to one, E = sum_i w_i E_i is a mean of the energies of single query
points, and Hölder's inequality bounds the partition function of all of them by those of each
alone:

    Z = ∫ Π_i exp(-E_i)^{w_i} dT  <=  Π_i Z_i^{w_i},    Z_i = ∫ exp(-E_i) dT.

So sum_i w_i (E_i(T) + log Z_i) is an upper bound of -log P(T) (eq. MLE): exact for one query
point, and tight when the query points agree. Each Z_i is a sum over a lattice of positions x = T
q_i and of rotations that comes from one matrix product (`handful.sampling`). The paper needs
thousands of Markov chain steps for every gradient; this needs none.

The demonstrated pose is counted as one more pose of the lattice. A model that has become sharper
than the lattice would otherwise find no competitor at all, and could lower its loss for ever.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from handful.clouds import Box
from handful.errors import OptionError
from handful.geometry import pose_to_rotation_translation, rotation_apply
from handful.models import MatchEnergy
from handful.sampling import (
    PoseLattice,
    lattice_log_partitions,
    near_points,
    pose_lattice,
)


@dataclass(frozen=True)
class LatticeConfig:
    """The lattice of poses that a demonstrated pose is told from.

    Attributes:
        spacing: Distance of neighbouring positions, metres.
        rotations: Number of rotations.
        reach: Positions farther than this from every point of the scene are left out, metres.
    """

    spacing: float = 0.02
    rotations: int = 300
    reach: float = 0.03

    def __post_init__(self) -> None:
        if not (self.spacing > 0 and self.reach > 0 and self.rotations >= 1):
            raise OptionError(f"{self} needs positive lengths and at least one rotation.")

    def near(self, points: Float[Tensor, "points 3"], generator: torch.Generator) -> PoseLattice:
        """A lattice around the points of a scene, shifted and turned at random."""
        low = (points.min(0).values - self.reach).tolist()
        high = (points.max(0).values + self.reach).tolist()
        return pose_lattice(
            Box((low[0], low[1], low[2]), (high[0], high[1], high[2])),
            self.spacing,
            self.rotations,
            generator,
            dtype=points.dtype,
            keep=near_points(points, self.reach),
        )


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
    energy: MatchEnergy, poses: Float[Tensor, "poses 4 4"], lattice: PoseLattice
) -> Float[Tensor, "queries"]:
    """How unlikely each query point by itself finds the poses: mean of -log P_i(T).

    Weighted with the query weights, the sum over query points bounds -log P(T) from above.
    """
    log_sums = lattice_log_partitions(energy, lattice) - lattice.log_cell
    return torch.nn.functional.softplus(query_energies(energy, poses) + log_sums).mean(0)
