"""Metropolis-Hastings with IG_SO(3) and Gaussian proposals (appendix MH)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from handful.geometry import IsotropicGaussianSO3, pose_from_rotation_translation

from ._diagnostics import chain_effective_sample_size
from ._sampler import Draw, Kernel
from ._target import Target, require_count, require_positive


@dataclass(frozen=True, kw_only=True)
class MetropolisHastings(Kernel):
    """Propose R' ~ IG_SO(3)(R), x' ~ N(x, distance² I); accept with min(1, exp(E - E')).

    Both proposals depend on the relative angle and distance alone, so they are symmetric and
    cancel in the acceptance ratio. The prior is uniform over the workspace: a proposal outside of
    it has density zero and is rejected.

    Attributes:
        steps: Proposals for each chain.
        angle: Standard deviation of each component of the proposed rotation vector, radians; the
            paper's ε is angle²/2.
        distance: Standard deviation of each component of the proposed move of the reference
            point, metres; the paper's σ is its square.
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


def reorthonormalised(centred: Float[Tensor, "poses 4 4"]) -> Float[Tensor, "poses 4 4"]:
    """The poses with the rounding of many products taken out of their rotations.

    One Newton step of the polar decomposition, R (3 I - RᵀR) / 2, squares an error that is already
    small.
    """
    rotation, translation = centred[:, :3, :3], centred[:, :3, 3]
    identity = torch.eye(3, dtype=centred.dtype)
    mended = rotation @ (1.5 * identity - 0.5 * rotation.mT @ rotation)
    return pose_from_rotation_translation(mended, translation)
