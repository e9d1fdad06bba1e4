"""The interface of all samplers: an energy, a workspace and a seed in, poses out."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from handful.clouds import Box
from handful.geometry import check_pose

from ._samples import PoseSamples, SamplingReport
from ._target import Energy, EnergyError, Target, require_count

_ROUNDING = 1e-5  # Metres.


@dataclass(frozen=True, eq=False)
class Draw:
    """What one run of a sampler has found, in centred poses (see `Target`).

    `Sampler.sample` sorts the poses by energy and returns them as `PoseSamples`.

    Attributes:
        centred: Centred poses, in any order.
        energies: E(T) of the poses.
        log_weights: Log importance weights of the poses that sum to one, or None.
        acceptance_rate: See `SamplingReport`.
        effective_sample_size: See `SamplingReport`.
        log_partition: See `SamplingReport`.
        levels: See `SamplingReport`.
    """

    centred: Float[Tensor, "poses 4 4"]
    energies: Float[Tensor, "poses"]
    log_weights: Float[Tensor, "poses"] | None = None
    acceptance_rate: float | None = None
    effective_sample_size: float | None = None
    log_partition: float | None = None
    levels: int = 0


@dataclass(frozen=True, kw_only=True)
class Sampler(ABC):
    """Draws poses from p(T) ∝ exp(-E(T)) · 1[T c ∈ workspace] dR d³v, or seeks its modes.

    Attributes:
        reference: The point c of the gripper that the workspace bounds, metres in the gripper
            frame. By default the weighted mean of the query points of a `MatchEnergy`, and the
            gripper's origin for other energies (see `Target`).
    """

    reference: tuple[float, float, float] | None = None

    def sample(
        self, energy: Energy, workspace: Box, count: int, generator: torch.Generator
    ) -> PoseSamples:
        """Poses with energies, best first.

        Args:
            energy: E(T) of poses T_scene_gripper.
            workspace: Bounds of the reference point T c in the scene frame, metres.
            count: How many poses.
            generator: Source of all randomness, on the CPU.

        Raises:
            OptionError: `count` is below one.
            EnergyError: An energy is not a number.
        """
        require_count(count=count)
        start = time.perf_counter()
        target = Target(energy, workspace, self.reference)
        with torch.no_grad():
            draw = self.draw(target, count, generator)
        return _finished(draw, target, start)

    @abstractmethod
    def draw(self, target: Target, count: int, generator: torch.Generator) -> Draw:
        """Do the work of `sample` in centred poses."""


@dataclass(frozen=True, kw_only=True)
class Kernel(Sampler):
    """A sampler that moves a batch of poses: one chain for each pose, all chains at once.

    `sample` starts the chains uniformly over the workspace and SO(3); `run` starts them at given
    poses. Both return the last pose of every chain.
    """

    def run(
        self,
        energy: Energy,
        T_scene_gripper: Float[Tensor, "poses 4 4"],
        generator: torch.Generator,
        workspace: Box,
    ) -> PoseSamples:
        """Poses after moving the given ones, best first.

        Args:
            energy: E(T) of poses T_scene_gripper.
            T_scene_gripper: Where the chains start [poses, 4, 4], for example poses from another
                sampler. Their reference points must be inside the workspace.
            generator: Source of all randomness, on the CPU.
            workspace: Bounds of the reference point T c in the scene frame, metres.

        Raises:
            GeometryError: `T_scene_gripper` does not hold poses.
            OptionError: It is empty.
            EnergyError: An energy is not a number, or a chain starts outside of the workspace.
        """
        require_count(T_scene_gripper=len(T_scene_gripper))
        check_pose(T_scene_gripper, name="T_scene_gripper")
        start = time.perf_counter()
        target = Target(energy, workspace, self.reference)
        given = target.centred(T_scene_gripper)
        centred = target.clamped(given)  # A pose on a face may have been rounded to its other side.
        outside = int(((given - centred).abs().amax((1, 2)) > _ROUNDING).sum())
        if outside:
            raise EnergyError(
                f"{outside} of {len(centred)} chains start outside of the workspace "
                f"{workspace.lower}..{workspace.upper} m (their reference points, see Target): "
                "widen the workspace or leave them out."
            )
        with torch.no_grad():
            draw = self.advance(target, centred, generator)
        return _finished(draw, target, start)

    def draw(self, target: Target, count: int, generator: torch.Generator) -> Draw:
        """Move poses that start uniformly distributed."""
        return self.advance(target, target.uniform(count, generator), generator)

    @abstractmethod
    def advance(
        self, target: Target, centred: Float[Tensor, "poses 4 4"], generator: torch.Generator
    ) -> Draw:
        """Move centred poses that are inside the workspace."""


def _finished(draw: Draw, target: Target, start: float) -> PoseSamples:
    order = draw.energies.argsort(stable=True)
    weights = draw.log_weights
    poses = target.poses(draw.centred[order])
    report = SamplingReport(
        seconds=time.perf_counter() - start,
        energy_evaluations=target.energy_evaluations,
        gradient_evaluations=target.gradient_evaluations,
        lattice_poses=target.lattice_poses,
        acceptance_rate=draw.acceptance_rate,
        effective_sample_size=draw.effective_sample_size,
        log_partition=draw.log_partition,
        levels=draw.levels,
    )
    return PoseSamples(
        poses, draw.energies[order], None if weights is None else weights[order], report
    )
