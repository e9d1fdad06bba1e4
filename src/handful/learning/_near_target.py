"""Poses near a demonstrated one: what a lattice is too coarse to tell apart from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from handful.errors import OptionError
from handful.geometry import IsotropicGaussianSO3, pose_to_rotation_translation


@dataclass(frozen=True)
class NearTarget:
    """Poses drawn around a target, normal in position and IG_SO(3) in rotation.

    Attributes:
        count: How many; 0 for none.
        distance: Standard deviation of each coordinate, metres.
        angle: Standard deviation of each component of the rotation, radians.
    """

    count: int = 0
    distance: float = 0.01
    angle: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.count <= 10_000:
            raise OptionError(f"poses near a target: count is {self.count}: need 0 to 10000.")
        for name in ("distance", "angle"):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0 < value <= 1):
                raise OptionError(f"poses near a target: {name} is {value}: need 0 to 1.")

    def draw(
        self,
        pose: Float[Tensor, "4 4"],
        center: Float[Tensor, "3"],
        generator: torch.Generator,
    ) -> tuple[Float[Tensor, "near 4 4"], Float[Tensor, "near"]]:
        """Poses around a target, and the logarithms of the density that they are drawn from.

        Densities are with respect to dR d³x with ∫dR = 1. A target that is moved has the same poses
        around it, moved.

        Args:
            pose: The target T_scene_gripper.
            center: What is moved and turned about, gripper frame, metres.
            generator: Source of randomness.
        """
        noise = _rotation_noise(self.angle)
        rotation, translation = pose_to_rotation_translation(pose.double())
        turns = noise.sample(self.count, generator=generator, dtype=torch.float64)
        shift = torch.randn(self.count, 3, generator=generator, dtype=torch.float64)
        middle = center.detach().double()
        turned = rotation @ turns
        where = (middle + self.distance * shift) @ rotation.T + translation
        near = torch.eye(4, dtype=torch.float64).repeat(self.count, 1, 1)
        near[:, :3, :3], near[:, :3, 3] = turned, where - turned @ middle
        density = noise.log_density(turns) - 0.5 * shift.square().sum(-1) - self._log_spread
        return near.to(pose), density.to(pose)

    def log_share(
        self, log_density: Float[Tensor, "*near"], log_cell: float
    ) -> Float[Tensor, "*near"]:
        """log(1 + cell K q): how much less than a pose of the lattice one near the target counts.

        Per volume there are 1 / cell poses of the lattice and K q near the target.

        Args:
            log_density: Log q of poses.
            log_cell: Log of the volume that a pose of the lattice stands for.
        """
        if self.count == 0:
            return torch.zeros_like(log_density)
        return torch.nn.functional.softplus(log_density + log_cell + math.log(self.count))

    @property
    def log_peak(self) -> float:
        """Logarithm of the density at the target itself, where it is highest."""
        nowhere = torch.zeros((), dtype=torch.float64)
        turned = float(_rotation_noise(self.angle).log_density_of_angle(nowhere))
        return turned - self._log_spread

    @property
    def _log_spread(self) -> float:
        """Logarithm of the volume that normalises the law of positions."""
        return 1.5 * math.log(2.0 * math.pi) + 3.0 * math.log(self.distance)


@lru_cache(maxsize=16)
def _rotation_noise(angle: float) -> IsotropicGaussianSO3:
    """The distribution with `angle` as the standard deviation of each axis; its table is kept."""
    return IsotropicGaussianSO3(angle**2 / 2.0)
