"""Noise-free descent: eq. langevin_coord without its noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from handful.errors import OptionError
from handful.geometry import pose_retract
from handful.sampling._sampler import Draw, Kernel
from handful.sampling._target import Target, require_count, require_positive

from ._steps import reorthonormalised, standard_drift, step_scale


@dataclass(frozen=True, kw_only=True)
class Descent(Kernel):
    """Steps ξ = -½ M Lᵀ∇E with M = diag(angle² I, distance² I), as the paper ends its inference.

    A reference point that would leave the workspace stays on the face that it would cross. The
    result is not a sample of the target: the poses lie near local minima of the energy.

    The paper's descent has no workspace, no limit of a step, and turns about the origin of the
    gripper (see `Langevin`).

    Attributes:
        steps: Steps of each pose.
        angle: Square root of the rotations' diagonal of M, radians, as in `Langevin`.
        distance: Square root of the positions' diagonal of M, metres, as in `Langevin`.
        step_limit: Longest step of rotation and of position, in units of `angle` and `distance`.
            Infinity gives the equation as printed.
    """

    steps: int = 100
    angle: float = 0.05
    distance: float = 0.003
    step_limit: float = 1.0

    def __post_init__(self) -> None:
        require_count(steps=self.steps)
        require_positive(angle=self.angle, distance=self.distance)
        if not self.step_limit > 0:
            raise OptionError(f"step_limit is {self.step_limit}: need a positive number.")

    def advance(
        self, target: Target, centred: Float[Tensor, "poses 4 4"], generator: torch.Generator
    ) -> Draw:
        """Move centred poses; no randomness is used."""
        scale = step_scale(self.angle, self.distance, target.dtype)
        for _ in range(self.steps):
            _, gradients = target.energies_and_gradients(centred)
            tangent = scale * standard_drift(gradients, scale, self.step_limit)
            centred = target.clamped(pose_retract(centred, tangent))
        centred = reorthonormalised(centred)
        return Draw(centred, target.energies(centred))
