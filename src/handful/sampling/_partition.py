"""The exact lattice log-partition function of one query point, and its exact gradient."""

from __future__ import annotations

import math
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
    require_match_energy(energy, "lattice_log_partition")
    if len(energy.queries) != 1:
        raise OptionError(
            f"lattice_log_partition is exact for one query point and got {len(energy.queries)}: "
            "keep the strongest (queries.strongest(1)), or use ExhaustiveSampler."
        )
    scores = QueryScores.of(energy, 0, lattice.rotations)
    keys = energy.field(lattice.positions)
    if energy.norm == "squared":
        total: Tensor = _LogSumExp.apply(scores.key_side(keys), scores.rotation_side())
    else:
        rows = rows_at_once(len(lattice.rotations))
        parts = [
            checkpoint(lambda block: (-scores.energies(block)).flatten().logsumexp(0), block,
                       use_reentrant=False)
            for block in keys.split(rows)
        ]  # fmt: skip
        total = torch.stack(parts).logsumexp(0)
    return total + lattice.log_cell


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
