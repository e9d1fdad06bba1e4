"""The effective sample size of Markov chains."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def chain_effective_sample_size(trace: Float[Tensor, "steps chains"]) -> float:
    """How many independent draws the chains' trace of a quantity is worth.

    Gelman et al., "Bayesian Data Analysis", sec. 11.5: n m / (1 + 2 Σ_t ρ_t), where ρ_t compares
    the autocovariance at lag t with the variance over all chains. Chains that disagree therefore
    count for little. The sum ends at the first negative pair (Geyer 1992). The first half of the
    trace is left out as burn-in.
    """
    steps, chains = len(trace) - len(trace) // 2, trace.shape[1]
    values = trace[-steps:].double()
    centred = values - values.mean(0)
    within = float(centred.square().sum(0).mean()) / max(steps - 1, 1)
    between = float(values.mean(0).var()) if chains > 1 else 0.0
    total = within * (steps - 1) / steps + between
    if total <= 0.0 or steps < 4:
        return float(chains)
    spectrum = torch.fft.rfft(centred, n=2 * steps, dim=0).abs().square().mean(1)
    covariance = torch.fft.irfft(spectrum, n=2 * steps)[:steps] / steps
    correlation = 1.0 - (within - covariance) / total
    correlation[0] = 1.0
    pairs = correlation[: steps // 2 * 2].unflatten(0, (-1, 2)).sum(1)
    negative = (pairs < 0).nonzero()
    last = int(negative[0]) if len(negative) else len(pairs)
    time = max(float(2.0 * pairs[:last].sum() - 1.0), 1.0 / steps)
    return min(steps * chains / time, float(steps * chains))
