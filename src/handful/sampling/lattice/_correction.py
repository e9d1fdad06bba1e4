"""What turns draws of a proposal into draws of the target: weights, or acceptance of each draw."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def weight_effective_sample_size(log_weights: Float[Tensor, "draws"]) -> float:
    """(Σw)² / Σw² of importance weights of any scale."""
    log = log_weights.double()
    return float(torch.exp(2.0 * log.logsumexp(0) - (2.0 * log).logsumexp(0)))


def independence_chains(
    log_weights: Float[Tensor, "draws"], chains: int, generator: torch.Generator
) -> tuple[Tensor, float | None]:
    """Metropolis-Hastings that proposes the draws one after the other, whatever the state.

    A move to a draw is accepted with min(1, w'/w). The draws are dealt out to the chains in turn.
    Each chain starts at the first draw that it was dealt.

    Returns:
        Index of the draw that every chain ends at [chains], and the acceptance rate (None if there
        are no more draws than chains).
    """
    steps = len(log_weights) // chains
    table = torch.arange(steps * chains).unflatten(0, (steps, chains))
    state, accepted = table[0], 0
    for proposed in table[1:]:
        uniform = torch.rand(chains, generator=generator, dtype=log_weights.dtype)
        accept = uniform.log() < log_weights[proposed] - log_weights[state]
        # A start of weight zero is left at once: its ratio is infinite, or NaN against another.
        state = torch.where(accept, proposed, state)
        accepted += int(accept.sum())
    return state, accepted / ((steps - 1) * chains) if steps > 1 else None
