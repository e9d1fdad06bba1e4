"""The distribution that all samplers share: an energy inside a workspace."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from handful.clouds import Box
from handful.errors import HandfulError, OptionError
from handful.geometry import haar_rotations, pose_from_rotation_translation, unskew
from handful.models import MatchEnergy

Energy = Callable[[Tensor], Tensor]
"""Poses T_scene_gripper [n, 4, 4] to energies [n], as `models.PoseEnergy` says; differentiable."""

_CHUNK = 4096


class EnergyError(HandfulError, ValueError):
    """An energy cannot be sampled: it is not a number, or no pose has any weight."""


class Target:
    """p(T) ∝ exp(-E(T)) · 1[T c ∈ workspace] dR d³v, with a reference point c of the gripper.

    SE(3) has infinite volume, so the position has to be bounded. The workspace bounds T c, where c
    is a point in the gripper frame near the contact: by default the weighted mean of the query
    points, because the gripper's own origin may be 15 cm above what it touches. For any c,
    x = R c + v gives dR d³v = dR d³x: the choice moves the bounds and not the measure.

    Samplers work on *centred* poses C = T · translation(c), whose translation is x = T c. Rotations
    then turn about the reference point. In the paper they turn about the gripper's origin, and
    positions are not bounded.

    A target counts the evaluations of one run, and belongs to that run alone. Energies are not
    changed by sampling: several threads may sample one energy, each with its own target.

    Args:
        energy: E(T) of poses T_scene_gripper.
        workspace: Bounds of T c in the scene frame, metres.
        reference: c in the gripper frame, metres. By default the weighted mean of the query points
            of a `MatchEnergy`, and the origin for other energies.
    """

    def __init__(
        self,
        energy: Energy,
        workspace: Box,
        reference: tuple[float, float, float] | None = None,
    ) -> None:
        self.energy = energy
        self.workspace = workspace
        self.dtype = _dtype(energy)
        self.lower = torch.tensor(workspace.lower, dtype=self.dtype)
        self.upper = torch.tensor(workspace.upper, dtype=self.dtype)
        self.reference = _reference(energy, reference, self.dtype)
        self.energy_evaluations = 0
        self.gradient_evaluations = 0
        self.lattice_poses = 0

    @property
    def log_volume(self) -> float:
        """Logarithm of the workspace's volume in m³; rotations have volume one."""
        return float((self.upper - self.lower).double().log().sum())

    def centred(self, T_scene_gripper: Float[Tensor, "poses 4 4"]) -> Float[Tensor, "poses 4 4"]:
        """C = T · translation(c)."""
        return _shifted(T_scene_gripper.to(self.dtype), self.reference)

    def poses(self, centred: Float[Tensor, "poses 4 4"]) -> Float[Tensor, "poses 4 4"]:
        """T_scene_gripper of centred poses."""
        return _shifted(centred, -self.reference)

    def inside(self, centred: Float[Tensor, "poses 4 4"]) -> Bool[Tensor, "poses"]:
        """Whether the reference point is inside the workspace, its faces included."""
        where = centred[:, :3, 3]
        return ((where >= self.lower) & (where <= self.upper)).all(-1)

    def clamped(self, centred: Float[Tensor, "poses 4 4"]) -> Float[Tensor, "poses 4 4"]:
        """The same rotations, with the reference point moved to the nearest place inside."""
        where = centred[:, :3, 3].clamp(self.lower, self.upper)
        return pose_from_rotation_translation(centred[:, :3, :3], where)

    def uniform(self, count: int, generator: torch.Generator) -> Float[Tensor, "poses 4 4"]:
        """Centred poses, uniform over the workspace and SO(3)."""
        rotation = haar_rotations(count, generator=generator, dtype=self.dtype)
        place = torch.rand(count, 3, generator=generator, dtype=torch.float64).to(self.dtype)
        where = self.lower + (self.upper - self.lower) * place
        return self.clamped(pose_from_rotation_translation(rotation, where))

    def energies(self, centred: Float[Tensor, "poses 4 4"]) -> Float[Tensor, "poses"]:
        """E of centred poses, infinite outside of the workspace.

        Raises:
            EnergyError: An energy inside is NaN or minus infinity.
        """
        with torch.no_grad():
            parts = [self.energy(self.poses(chunk)) for chunk in centred.split(_CHUNK)]
        self.energy_evaluations += len(centred)
        energies = torch.where(self.inside(centred), torch.cat(parts), math.inf)
        return _checked(energies, self.poses(centred))

    def energies_and_gradients(
        self, centred: Float[Tensor, "poses 4 4"]
    ) -> tuple[Float[Tensor, "poses"], Float[Tensor, "poses 6"]]:
        """E, infinite outside, and its Lie derivatives Lᵀ ∂E/∂z (eq. langevin).

        The derivatives are along (R exp(s [e_i]×), x + s e_j) (`geometry.pose_retract`). From
        A = Rᵀ ∂E/∂R, the rotational part is the vector of A - Aᵀ.

        Raises:
            EnergyError: An energy or a gradient inside is not a number.
        """
        values, slopes = [], []
        for chunk in centred.split(_CHUNK):
            with torch.enable_grad():
                leaf = chunk.detach().clone().requires_grad_()
                energies = self.energy(self.poses(leaf))
                (slope,) = torch.autograd.grad(energies.sum(), leaf)
            values.append(energies.detach())
            slopes.append(slope)
        self.energy_evaluations += len(centred)
        self.gradient_evaluations += len(centred)
        slope = torch.cat(slopes)
        inside = self.inside(centred)
        energies = _checked(torch.where(inside, torch.cat(values), math.inf), self.poses(centred))
        turn = 2.0 * unskew(centred[:, :3, :3].mT @ slope[:, :3, :3])
        gradient = torch.cat([turn, slope[:, :3, 3]], dim=-1)
        gradient = torch.where(inside[:, None], gradient, 0.0)
        if not bool(torch.isfinite(gradient).all()):
            bad = int((~torch.isfinite(gradient)).any(1).sum())
            raise EnergyError(
                f"the energy's gradient is not finite at {bad} of {len(gradient)} poses: it must "
                "be differentiable everywhere in the workspace."
            )
        return energies, gradient


def require_match_energy(energy: Energy, who: str) -> MatchEnergy:
    """The energy, if it is one whose structure a lattice can use.

    Raises:
        OptionError: It is not a `MatchEnergy`, or it has no query points.
    """
    if not isinstance(energy, MatchEnergy):
        raise OptionError(
            f"{who} needs a MatchEnergy and got {type(energy).__name__}: use MetropolisHastings or "
            "Langevin for other energies."
        )
    if len(energy.queries) == 0 or not bool((energy.queries.weights > 0).any()):
        raise OptionError(
            f"{who} needs at least one query point of positive weight; got weights "
            f"{energy.queries.weights.tolist()}."
        )
    return energy


def useful_match_energy(energy: Energy, who: str) -> MatchEnergy:
    """The energy without its query points of weight zero, which do not count.

    Raises:
        OptionError: A lattice cannot use the energy (`require_match_energy`).
    """
    found = require_match_energy(energy, who)
    return replace(found, queries=found.queries.useful())


def require_positive(**options: float) -> None:
    """Check that options are finite and positive.

    Raises:
        OptionError: One is not.
    """
    for name, value in options.items():
        if not (math.isfinite(value) and value > 0):
            raise OptionError(f"{name} is {value}: need a positive number.")


def require_count(**options: int) -> None:
    """Check that options are at least one.

    Raises:
        OptionError: One is not.
    """
    for name, value in options.items():
        if value < 1:
            raise OptionError(f"{name} is {value}: need at least 1.")


def _shifted(poses: Tensor, offset: Tensor) -> Tensor:
    rotation, translation = poses[..., :3, :3], poses[..., :3, 3]
    return pose_from_rotation_translation(rotation, translation + rotation @ offset)


def _dtype(energy: Energy) -> torch.dtype:
    if isinstance(energy, MatchEnergy):
        return energy.queries.positions.dtype
    found = getattr(energy, "dtype", None)
    return found if isinstance(found, torch.dtype) else torch.get_default_dtype()


def _reference(
    energy: Energy, reference: tuple[float, float, float] | None, dtype: torch.dtype
) -> Tensor:
    if reference is not None:
        point = torch.tensor(reference, dtype=dtype)
        if not bool(torch.isfinite(point).all()):
            raise OptionError(f"reference is {reference}: need three finite numbers, metres.")
        return point
    if isinstance(energy, MatchEnergy) and len(energy.queries) > 0:
        return energy.queries.center
    return torch.zeros(3, dtype=dtype)


def _checked(energies: Tensor, poses: Tensor) -> Tensor:
    bad = torch.isnan(energies) | (energies == -math.inf)
    if bool(bad.any()):
        first = int(bad.nonzero()[0])
        where = [round(value, 4) for value in poses[first, :3, 3].tolist()]
        raise EnergyError(
            f"the energy of {int(bad.sum())} of {len(energies)} poses is not a number (first: "
            f"{float(energies[first])} at the gripper position {where} m): every energy must be "
            "finite, or plus infinity where a pose is forbidden."
        )
    return energies
