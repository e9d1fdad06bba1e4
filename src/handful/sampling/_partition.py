"""The exact lattice log-partition function of one query point, and its exact gradient."""

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

from ._grid import PoseLattice
from ._scores import QueryScores, rows_at_once
from ._target import require_match_energy


def lattice_log_partition(energy: MatchEnergy, lattice: PoseLattice) -> Float[Tensor, ""]:
    """The logarithm log Z = log Σ exp(-E(x, R)) · cell over all lattice poses; differentiable.

    With the random shift and turn of `pose_lattice`, Z is an unbiased estimate of the integral over
    the workspace (in metres, ∫dR = 1), so -E(T_target) - log Z is the log-likelihood of eq. MLE and
    its gradient needs no Markov chain. Gradients flow to whatever the key field and the query
    points depend on. The energy matrix is never held as a whole: it goes by in blocks, whose
    softmax-weighted sums are all that the gradient needs.

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

    The key field is evaluated once for all of them. See `lattice_log_partition`; the lattice's
    positions are x = T q_i for each query point i in turn.
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
    scores = QueryScores.of(energy, index, lattice.rotations)
    if energy.norm == "squared":
        return _LogSumExp.apply(scores.key_side(keys), scores.rotation_side())
    rows = rows_at_once(len(lattice.rotations))
    parts = [
        checkpoint(lambda block: (-scores.energies(block)).flatten().logsumexp(0), block,
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
