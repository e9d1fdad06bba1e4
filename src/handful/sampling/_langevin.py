"""Langevin dynamics on poses (eq. langevin, langevin_coord), optionally Metropolis-adjusted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from handful.errors import OptionError
from handful.geometry import pose_retract

from ._diagnostics import chain_effective_sample_size
from ._metropolis import reorthonormalised
from ._sampler import Draw, Kernel
from ._target import Target, require_count, require_positive


@dataclass(frozen=True, kw_only=True)
class Langevin(Kernel):
    """Steps of eq. langevin_coord: ξ = -½ M Lᵀ∇E + M^½ n, n ~ N(0, I), T ← retract(T, ξ).

    M = diag(angle² I, distance² I) gives rotations (radians) and positions (metres) their own time
    step dt = M/2, a constant preconditioner that leaves the stationary law as it is. The step
    (R exp[ω]×, x + u) is the one that eq. langevin_coord discretises, and stays on the group with
    no projection (see `geometry.lie_derivative_matrix`); ω turns about the reference point.

    Unadjusted, the law of the chain differs from the target by O(dt), and a step that would leave
    the workspace is not made. Adjusted (MALA), the target is exact. Its acceptance ratio is

        exp(E - E') · N(-ξ; -½ M∇E', M) / N(ξ; -½ M∇E, M),

    with Gaussian densities in the tangent space and *no* Jacobian of the exponential map: the move
    (T, ξ) ↦ (retract(T, ξ), -ξ) is its own inverse, and preserves dR d³x d⁶ξ because for a fixed ξ
    it is a right multiplication, which the Haar measure ignores (Tierney 1998). So the ratio is
    exact, even for steps of more than half a turn that reach a rotation by two ways.

    Attributes:
        steps: Steps of each chain.
        angle: Standard deviation of the noise of each rotation component, radians.
        distance: Standard deviation of the noise of each position component, metres.
        metropolis_adjusted: Accept or reject every step, so that the target is exact.
        drift_limit: The drifts of rotation and position are cut to this many standard deviations.
            That only acts where a step would overshoot, and keeps MALA exact; infinity for the
            equation as printed.
    """

    steps: int = 300
    angle: float = 0.05
    distance: float = 0.003
    metropolis_adjusted: bool = False
    drift_limit: float = 3.0

    def __post_init__(self) -> None:
        require_count(steps=self.steps)
        require_positive(angle=self.angle, distance=self.distance)
        if not self.drift_limit > 0:
            raise OptionError(f"drift_limit is {self.drift_limit}: need a positive number.")

    def advance(
        self, target: Target, centred: Float[Tensor, "poses 4 4"], generator: torch.Generator
    ) -> Draw:
        """Move centred poses."""
        scale = step_scale(self.angle, self.distance, target.dtype)
        energies, gradients = target.energies_and_gradients(centred)
        drift = standard_drift(gradients, scale, self.drift_limit)
        trace = energies.new_empty(self.steps, len(energies))
        accepted = 0
        for step in range(self.steps):
            noise = torch.randn(len(centred), 6, generator=generator, dtype=target.dtype)
            uniform = torch.rand(len(centred), generator=generator, dtype=target.dtype)
            tangent = drift + noise
            proposed = pose_retract(centred, tangent * scale)
            proposed_energies, gradients = target.energies_and_gradients(proposed)
            proposed_drift = standard_drift(gradients, scale, self.drift_limit)
            if self.metropolis_adjusted:
                back = (-tangent - proposed_drift).square().sum(-1)
                there = noise.square().sum(-1)
                log_ratio = energies - proposed_energies + 0.5 * (there - back)
                accept = uniform < log_ratio.exp()
            else:
                accept = proposed_energies < math.inf
            centred = torch.where(accept[:, None, None], proposed, centred)
            energies = torch.where(accept, proposed_energies, energies)
            drift = torch.where(accept[:, None], proposed_drift, drift)
            trace[step] = energies
            accepted += int(accept.sum())
        return Draw(
            reorthonormalised(centred),
            energies,
            acceptance_rate=accepted / (self.steps * len(centred)),
            effective_sample_size=chain_effective_sample_size(trace),
        )


def step_scale(angle: float, distance: float, dtype: torch.dtype) -> Float[Tensor, "6"]:
    """The diagonal of M^½: radians for ω, metres for u."""
    return torch.tensor([angle] * 3 + [distance] * 3, dtype=dtype)


def standard_drift(
    gradients: Float[Tensor, "poses 6"], scale: Float[Tensor, "6"], limit: float
) -> Float[Tensor, "poses 6"]:
    """The drift in units of the noise, M^-½ (-½ M ∇E), rotation and position cut to `limit`."""
    drift = (-0.5 * scale * gradients).unflatten(-1, (2, 3))
    length = drift.square().sum(-1, keepdim=True).sqrt()
    return (drift * (limit / length.clamp_min(limit) if limit < math.inf else 1.0)).flatten(-2)
