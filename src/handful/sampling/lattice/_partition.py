"""The partition function of one query point, summed over a lattice, and its exact gradient.

**What is computed.** Z_lattice = Σ exp(-E(x, R)) · cell over all positions x and rotations R of a
`PoseLattice`. The sum and its gradient are exact: no pose of the lattice is left out.

**What it estimates.** `pose_lattice` shifts the positions and turns the rotations at random. Every
lattice pose is then uniformly distributed by itself, and Z_lattice is an unbiased estimate of
Z = ∫ exp(-E) dR d³x for every spacing and every number of rotations: E[Z_lattice] = Z.

**On which domain.** The integral is over all rotations and over the positions x = T q of the query
point that are in the box of the lattice and where its mask is true. With `near_points` these are
the positions near the points of the scene. Poses with the query point in empty space have
probability zero in this model, although their energy is finite.

**Which way log Z is biased.** The logarithm is concave: E[log Z_lattice] <= log E[Z_lattice] =
log Z (Jensen). An estimate E(T) + log Z_lattice of -log P(T) is therefore too *low* on average.
The difference is about Var(Z_lattice) / (2 Z²). It is large while the lattice is coarser than the
modes of exp(-E), and vanishes as the spacing and the angle between rotations shrink. The gradient
of log Z_lattice is that of the biased objective. A bound of -log P that is made of the log Z_i of
single query points (Hölder's inequality, `learning`) is an upper bound for the exact log Z_i. Made
of lattice sums, its mean over lattices may be below -log P while the lattice is coarse.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from handful.errors import OptionError
from handful.models import MatchEnergy
from handful.sampling._target import require_match_energy

from ._grid import PoseLattice
from ._lattice_energies import LatticeEnergies, rows_at_once


def lattice_log_partition(energy: MatchEnergy, lattice: PoseLattice) -> Float[Tensor, ""]:
    """The logarithm log Z = log Σ exp(-E(x, R)) · cell over all lattice poses; differentiable.

    Lengths are in metres and ∫dR = 1. The value -E(T_target) - log Z estimates the log-likelihood
    of eq. MLE, and its gradient needs no Markov chain. The docstring of this module says over which
    domain Z is taken, and which way log Z is biased.

    Gradients flow to whatever the key field and the query points depend on. The energy matrix is
    never held as a whole. It is computed in blocks, and the gradient needs only their
    softmax-weighted sums.

    Args:
        energy: An energy with one query point.
        lattice: Positions x = T q of that query point, and rotations.

    Raises:
        OptionError: There is not exactly one query point; for more, see `ExhaustiveSampler`.
    """
    if len(require_match_energy(energy, "lattice_log_partition").queries) != 1:
        raise OptionError(
            f"lattice_log_partition is exact for one query point and got {len(energy.queries)}: "
            "keep the strongest (queries.strongest(1)), or use ExhaustiveSampler."
        )
    return _log_sum(energy, 0, energy.field(lattice.positions), lattice) + lattice.log_cell


def lattice_log_partitions(energy: MatchEnergy, lattice: PoseLattice) -> Float[Tensor, "queries"]:
    """Log Z_i of every query point by itself, with weight one; differentiable.

    The key field is evaluated once for all of them. The positions of the lattice are x = T q_i for
    each query point i in turn. See `lattice_log_partition` for one query point.
    """
    require_match_energy(energy, "lattice_log_partitions")
    queries = energy.queries
    alone = replace(energy, queries=replace(queries, weights=torch.ones_like(queries.weights)))
    keys = energy.field(lattice.positions)
    sums = [_log_sum(alone, index, keys, lattice) for index in range(len(queries))]
    return torch.stack(sums) + lattice.log_cell


def _log_sum(
    energy: MatchEnergy, index: int, keys: Float[Tensor, "positions dim"], lattice: PoseLattice
) -> Float[Tensor, ""]:
    """Log of the sum of exp(-E_i) over the lattice."""
    alone = LatticeEnergies.of(energy, index, lattice.rotations)
    if energy.norm == "squared":
        return _LogSumExp.apply(alone.key_side(keys), alone.rotation_side())
    rows = rows_at_once(len(lattice.rotations))
    parts = [
        checkpoint(lambda block: (-alone.at(block)).flatten().logsumexp(0), block,
                   use_reentrant=False)
        for block in keys.split(rows)
    ]  # fmt: skip
    return torch.stack(parts).logsumexp(0)


class _LogSumExp(torch.autograd.Function):
    """log Σ_jk exp(-a_j·b_k), whose gradients are -P B and -PᵀA with the softmax matrix P."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        rows = rows_at_once(len(right))
        needed = any(ctx.needs_input_grad)
        tops: list[float] = []
        sums: list[Tensor] = []
        pulls_left: list[Tensor] = []
        pull_right, highest = torch.zeros_like(right), -math.inf
        for block in left.split(rows):
            logits = -(block @ right.mT)
            top = float(logits.max())
            weights = logits.sub_(top).exp_()
            tops.append(top)
            sums.append(weights.sum(dtype=torch.float64))
            if needed:
                # Blocks have their own scales; the running sum over blocks follows the highest.
                pulls_left.append(weights @ right)
                new = max(highest, top)
                pull_right.mul_(math.exp(highest - new))
                pull_right.add_(weights.mT @ block, alpha=math.exp(top - new))
                highest = new
        scales = torch.tensor(tops, dtype=torch.float64)
        total = (scales + torch.stack(sums).log()).logsumexp(0)
        if needed:
            parts = [
                pull * math.exp(top - float(total))
                for pull, top in zip(pulls_left, tops, strict=True)
            ]
            ctx.save_for_backward(torch.cat(parts), pull_right * math.exp(highest - float(total)))
        return total.to(left.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        pull_left, pull_right = ctx.saved_tensors
        return -grads[0] * pull_left, -grads[0] * pull_right
