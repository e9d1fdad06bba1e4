"""Metropolis-Hastings with IG_SO(3) and Gaussian proposals (appendix MH)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from handful.geometry import IsotropicGaussianSO3, pose_from_rotation_translation
from handful.sampling._sampler import Draw, Kernel
from handful.sampling._target import Target, require_count, require_positive

from ._diagnostics import chain_effective_sample_size
from ._steps import reorthonormalised


@dataclass(frozen=True, kw_only=True)
class MetropolisHastings(Kernel):
    """Propose R' ~ IG_SO(3)(R), x' ~ N(x, distance² I); accept with min(1, exp(E - E')).

    Both proposals depend on the relative angle and distance alone. They are symmetric and cancel in
    the acceptance ratio, which is the paper's A without the factors dQ. The target is restricted to
    the workspace: a proposal outside of it has density zero and is rejected.

    The laws of the proposals are those of the paper. Three things around them differ:

    - x is the reference point T c of the gripper (see `Target`); the paper moves the origin v of
      the gripper. Rotations therefore turn about the reference point. In terms of (R, v) the
      position proposal is centred at v + (R - R') c and not at v.
    - The paper does not bound the poses, and SE(3) has infinite volume. Here the workspace bounds
      the reference point.
    - The paper does not say how wide its proposals are. The defaults here are ours.

    Attributes:
        steps: Proposals for each chain.
        angle: Width of the proposed rotation, radians; the ε of the paper's series (eq. normalso3)
            is angle²/2. While the angle is small, it is the standard deviation of each component
            of the proposed rotation vector.
        distance: Standard deviation of each component of the proposed move of the reference
            point, metres. The paper writes the covariance as σ I: its σ is distance².
    """

    steps: int = 1000
    angle: float = 0.3
    distance: float = 0.02

    def __post_init__(self) -> None:
        require_count(steps=self.steps)
        require_positive(angle=self.angle, distance=self.distance)

    def advance(
        self, target: Target, centred: Float[Tensor, "poses 4 4"], generator: torch.Generator
    ) -> Draw:
        """Move centred poses."""
        normal = IsotropicGaussianSO3(0.5 * self.angle**2)
        energies = target.energies(centred)
        trace = energies.new_empty(self.steps, len(energies))
        accepted = 0
        for step in range(self.steps):
            turn = normal.sample(len(centred), generator=generator, dtype=target.dtype)
            move = torch.randn(len(centred), 3, generator=generator, dtype=target.dtype)
            proposed = pose_from_rotation_translation(
                centred[:, :3, :3] @ turn, centred[:, :3, 3] + self.distance * move
            )
            uniform = torch.rand(len(centred), generator=generator, dtype=target.dtype)
            proposed_energies = target.energies(proposed)
            accept = uniform < self.acceptance(energies, proposed_energies)
            centred = torch.where(accept[:, None, None], proposed, centred)
            energies = torch.where(accept, proposed_energies, energies)
            trace[step] = energies
            accepted += int(accept.sum())
        return Draw(
            reorthonormalised(centred),
            energies,
            acceptance_rate=accepted / (self.steps * len(centred)),
            effective_sample_size=chain_effective_sample_size(trace),
        )

    @staticmethod
    def acceptance(
        energies: Float[Tensor, "chains"], proposed: Float[Tensor, "chains"]
    ) -> Float[Tensor, "chains"]:
        """P(T') / P(T), not cut at one; NaN, which accepts nothing, if both are forbidden."""
        return (energies - proposed).exp()
