"""Langevin dynamics on poses (eq. langevin, langevin_coord), optionally Metropolis-adjusted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from handful.errors import OptionError
from handful.geometry import pose_retract
from handful.sampling._sampler import Draw, Kernel
from handful.sampling._target import Target, require_count, require_positive

from ._diagnostics import chain_effective_sample_size
from ._steps import reorthonormalised, standard_drift, step_scale


@dataclass(frozen=True, kw_only=True)
class Langevin(Kernel):
    """Steps of eq. langevin_coord: ξ = -½ M Lᵀ∇E + M^½ n, n ~ N(0, I), T ← retract(T, ξ).

    M = diag(angle² I, distance² I) gives rotations (radians) and positions (metres) their own time
    step dt = M/2, a constant preconditioner that leaves the stationary law as it is. The step
    (R exp[ω]×, x + u) is the one that eq. langevin_coord discretises, and stays on the group with
    no projection (see `geometry.lie_derivative_matrix`); ω turns about the reference point.

    Unadjusted, as in the paper, the law of the chain differs from the target by O(dt), and a step
    that would leave the workspace is not made. Adjusted (MALA), the target is exact. Its acceptance
    ratio is

        exp(E - E') · N(-ξ; -½ M∇E', M) / N(ξ; -½ M∇E, M),

    with Gaussian densities in the tangent space and *no* Jacobian of the exponential map: the move
    (T, ξ) ↦ (retract(T, ξ), -ξ) is its own inverse, and preserves dR d³x d⁶ξ because for a fixed ξ
    it is a right multiplication, which the Haar measure ignores (Tierney 1998). The ratio is
    therefore exact, even for steps of more than half a turn that reach a rotation by two ways.

    The step differs from the paper's in four things:

    - The paper has one time step dt for all six components; M gives rotations and positions their
      own. The paper does not say its dt; the defaults here are ours.
    - The paper adds dq to the quaternion and normalises the sum. The exponential map here agrees
      with that to first order in dt.
    - Rotations turn about the reference point (see `Target`); the paper's turn about the origin of
      the gripper. The workspace bounds the reference point; the paper bounds nothing.
    - `drift_limit` cuts long drifts, which the paper does not. Where it acts on an unadjusted
      chain, the stationary law changes by more than the O(dt) above.

    Attributes:
        steps: Steps of each chain.
        angle: Standard deviation of the noise of each rotation component, radians.
        distance: Standard deviation of the noise of each position component, metres.
        metropolis_adjusted: Accept or reject every step, so that the target is exact.
        drift_limit: The drifts of rotation and position are cut to this many standard deviations
            of the noise. The limit acts only where the energy is steep for the step, and keeps
            MALA exact. Infinity gives the equation as printed.
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
