"""Exhaustive search: the whole lattice, its minima, a short refinement; anytime if asked."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from handful.clouds import Box
from handful.errors import OptionError
from handful.geometry import rotation_lattice
from handful.models import Field, MatchEnergy
from handful.sampling._sampler import Draw, Sampler
from handful.sampling._samples import distinct_poses
from handful.sampling._target import (
    Energy,
    Target,
    require_count,
    require_positive,
    useful_match_energy,
)

from ._dense_lattice import DenseLattice, KeyGrid
from ._grid import MAX_CELLS, NothingToSearch, PositionMask, cells_over
from ._minima import dense_minima, sparse_minima
from ._refinement import refine
from ._sparse_lattice import SparseLattice

_CANDIDATES = 1024
_FINER = math.sqrt(2.0)

PoseMask = Callable[[Tensor], Tensor]
"""Poses [n, 4, 4] to a mask [n]."""


@dataclass(frozen=True, kw_only=True)
class ExhaustiveSearch(Sampler):
    """The best poses of a `MatchEnergy`: all of a lattice, then refinement.

    The energies of all lattice poses come from one matrix product for each query point
    (`LatticeEnergies`). `refine` moves the best distinct minima of the lattice down to local minima
    of the energy, and gives up those that will not be among the `count` best. The result is the
    distinct poses that it ends at, at most `count` of them, best first.

    With a `time_budget`, lattices go from coarse to fine: the first has twice the spacing and an
    eighth of the rotations, every further one is finer by √2 in each dimension, as long as its
    predicted time fits; then the finest that fits is repeated with new random shifts. The result
    holds the best of all, and the budget is met to within a fifth once the first lattice is done.

    Attributes:
        spacing: Distance of neighbouring positions, metres.
        rotations: Number of rotations; 512 are about 0.5 rad apart.
        starts: How many lattice minima refinement begins with, at least; `count` if that is more.
            After each step the best quarter of them goes on, and at least `count` (`refine`). A
            narrow minimum lies between the poses of the lattice and looks shallow there: among few
            starts it is missing, and a broad but shallower one is answered.
        refine_steps: Most steps of refinement; see `refine`.
        newton: Whether Newton's method ends the refinement.
        mask: Which positions of query points to look at, for example `near_points` of the scene;
            all by default. The search is much faster when the mask leaves few positions.
        time_budget: Seconds for the anytime mode; None for one lattice.
        allowed: Which poses T_scene_gripper [n, 4, 4] may be answered, as a mask [n]; all by
            default. It is asked for the minima of the lattice, and for what is answered.
    """

    spacing: float = 0.025
    rotations: int = 512
    starts: int = 256
    refine_steps: int = 8
    newton: bool = True
    mask: PositionMask | None = None
    time_budget: float | None = None
    allowed: PoseMask | None = None

    def __post_init__(self) -> None:
        require_positive(spacing=self.spacing)
        require_count(rotations=self.rotations, starts=self.starts, refine_steps=self.refine_steps)
        if self.time_budget is not None:
            require_positive(time_budget=self.time_budget)

    @property
    def resolution(self) -> float:
        """Angle between neighbouring rotations, radians: the side of a cube of their volume."""
        return (8.0 * math.pi**2 / self.rotations) ** (1.0 / 3.0)

    def draw(self, target: Target, count: int, generator: torch.Generator) -> Draw:
        """Search one lattice, or lattices from coarse to fine."""
        energy = useful_match_energy(target.energy, "ExhaustiveSearch")
        _tabulate(energy)
        if self.time_budget is None:
            poses, energies = self._level(target, energy, count, generator, math.inf)
            return self._ended(target, poses, energies, count, levels=1)
        deadline = time.perf_counter() + self.time_budget
        level = replace(self, spacing=2.0 * self.spacing, rotations=max(1, self.rotations // 8))
        poses, energies, levels = (
            torch.empty(0, 4, 4, dtype=target.dtype),
            torch.empty(0, dtype=target.dtype),
            0,
        )
        while True:
            start = time.perf_counter()
            new_poses, new_energies = level._level(target, energy, count, generator, deadline)
            took = time.perf_counter() - start
            levels += 1
            poses, energies = torch.cat([poses, new_poses]), torch.cat([energies, new_energies])
            best = level._ended(target, poses, energies, max(count, self.starts), levels)
            poses, energies = best.centred, best.energies
            left = deadline - time.perf_counter()
            # Finer by √2 in six dimensions is at most eight times the work.
            if 8.0 * took < left:
                level = level._finer()
            elif took > left:
                return level._ended(target, poses, energies, count, levels)

    def _finer(self) -> ExhaustiveSearch:
        return replace(
            self, spacing=self.spacing / _FINER, rotations=math.ceil(self.rotations * _FINER**3)
        )

    def _level(
        self,
        target: Target,
        energy: MatchEnergy,
        count: int,
        generator: torch.Generator,
        deadline: float,
    ) -> tuple[Float[Tensor, "poses 4 4"], Float[Tensor, "poses"]]:
        """Minima of one lattice, refined."""
        starts, _ = self._starts(target, energy, count, generator)
        return self._refined(target, starts, count, deadline)

    def _starts(
        self, target: Target, energy: MatchEnergy, count: int, generator: torch.Generator
    ) -> tuple[Float[Tensor, "poses 4 4"], Float[Tensor, "poses"]]:
        """The best distinct minima of one lattice, not refined."""
        minima, energies = self._minima(target, energy, generator)
        if len(minima) == 0:  # The energy is the same everywhere.
            minima = target.uniform(max(count, self.starts), generator)
            energies = target.energies(minima)
        if self.allowed is not None:
            fine = self.allowed(target.poses(minima))
            minima, energies = minima[fine], energies[fine]
        chosen = self.distinct_starts(minima, energies, count)
        return minima[chosen], energies[chosen]

    def distinct_starts(
        self, poses: Float[Tensor, "poses 4 4"], energies: Float[Tensor, "poses"], count: int
    ) -> Int[Tensor, "starts"]:
        """Which lattice minima are refined when `count` poses are asked for, best first."""
        limit = max(count, self.starts)
        return distinct_poses(poses, energies, self.resolution, self.spacing, limit=limit)

    def _refined(
        self,
        target: Target,
        starts: Float[Tensor, "poses 4 4"],
        count: int | None,
        deadline: float,
    ) -> tuple[Float[Tensor, "poses 4 4"], Float[Tensor, "poses"]]:
        if len(starts) == 0:
            return starts, starts.new_zeros(0)
        return refine(
            target,
            starts,
            steps=self.refine_steps,
            angle=0.5 * self.resolution,
            distance=0.5 * self.spacing,
            count=count,
            newton=self.newton,
            deadline=deadline,
        )

    def _minima(
        self, target: Target, energy: MatchEnergy, generator: torch.Generator
    ) -> tuple[Float[Tensor, "poses 4 4"], Float[Tensor, "poses"]]:
        """Minima of a sparse lattice if there is a mask, else of a dense one."""
        rotations = rotation_lattice(self.rotations, generator=generator, dtype=target.dtype)
        if self.mask is not None:
            return self._sparse_minima(target, energy, rotations, generator, self.mask)
        grid = KeyGrid.of(target, energy, self.spacing, generator, self.mask)
        target.lattice_poses += grid.inner.size * self.rotations
        return dense_minima(DenseLattice.of(grid, rotations), _CANDIDATES)

    def _sparse_minima(
        self,
        target: Target,
        energy: MatchEnergy,
        rotations: Float[Tensor, "rotations 3 3"],
        generator: torch.Generator,
        mask: PositionMask,
    ) -> tuple[Float[Tensor, "poses 4 4"], Float[Tensor, "poses"]]:
        """Minima of a sparse lattice; of two halves of the workspace where one is too large.

        The halves overlap by a cell on each side: a minimum at the cut has its neighbours in one.
        """
        if cells_over(target.workspace, self.spacing) <= MAX_CELLS:
            sparse = SparseLattice.of(target, energy, self.spacing, rotations, generator, mask)
            if sparse is not None:
                target.lattice_poses += sparse.energies.numel()
                minima, energies = sparse_minima(sparse, _CANDIDATES)
                if not sparse.exact:
                    minima = target.clamped(minima)
                    energies = target.energies(minima)
                return minima, energies
        found = []
        for box in _halves(target.workspace, self.spacing):
            half = Target(target.energy, box, tuple(target.reference.tolist()))
            try:
                found.append(self._sparse_minima(half, energy, rotations, generator, mask))
            except NothingToSearch:
                continue
            finally:
                target.lattice_poses += half.lattice_poses
                target.energy_evaluations += half.energy_evaluations
        if not found:
            raise NothingToSearch(
                f"`mask` leaves no lattice position in {target.workspace.lower}.."
                f"{target.workspace.upper} m: widen its radius, or move the workspace to where the "
                "points are."
            )
        minima, energies = (torch.cat(part) for part in zip(*found, strict=True))
        order = energies.argsort(stable=True)[:_CANDIDATES]
        return minima[order], energies[order]

    def candidates(
        self, energy: Energy, workspace: Box, count: int, generator: torch.Generator
    ) -> tuple[Float[Tensor, "poses 4 4"], Float[Tensor, "poses"]]:
        """The first half of `sample`: where refinement would start, and the energies there.

        A scene that does not fit in memory is searched part by part: `candidates` of each part, the
        best of them all (`distinct_starts`), `refined` in the part that each is in, and the best of
        those (`distinct`).
        """
        useful = useful_match_energy(energy, "ExhaustiveSearch")
        _tabulate(energy)
        target = Target(energy, workspace, self.reference)
        with torch.no_grad():
            centred, energies = self._starts(target, useful, count, generator)
        return target.poses(centred), energies

    def refined(
        self,
        energy: Energy,
        workspace: Box,
        T_scene_gripper: Float[Tensor, "poses 4 4"],
        count: int | None = None,
    ) -> tuple[Float[Tensor, "poses 4 4"], Float[Tensor, "poses"]]:
        """Poses moved to their local minima, and the energies there.

        The poses stay in their order, and may be the same. As in `sample`, poses that will not be
        among the `count` best are left on their way; without `count` all reach their minima.
        """
        _tabulate(energy)
        target = Target(energy, workspace, self.reference)
        with torch.no_grad():
            centred, energies = self._refined(
                target, target.centred(T_scene_gripper), count, math.inf
            )
        return target.poses(centred), energies

    def distinct(
        self, poses: Float[Tensor, "poses 4 4"], energies: Float[Tensor, "poses"], count: int
    ) -> Int[Tensor, "kept"]:
        """The best distinct poses among refined ones, at most `count`, best first."""
        return distinct_poses(
            poses, energies, 0.25 * self.resolution, 0.25 * self.spacing, limit=count
        )

    def _ended(
        self,
        target: Target,
        poses: Float[Tensor, "poses 4 4"],
        energies: Float[Tensor, "poses"],
        count: int,
        levels: int,
    ) -> Draw:
        """The distinct poses among the refined ones."""
        if self.allowed is not None:
            fine = self.allowed(target.poses(poses))
            poses, energies = poses[fine], energies[fine]
        chosen = self.distinct(poses, energies, count)
        return Draw(poses[chosen], energies[chosen], levels=levels)


def _tabulate(energy: Energy) -> None:
    """Make the field ready for many positions from the start: see `Field.tabulate`."""
    if isinstance(energy, MatchEnergy) and isinstance(energy.field, Field):
        energy.field.tabulate()


def _halves(box: Box, overlap: float) -> tuple[Box, Box]:
    """A box cut across its longest side, with both halves longer by `overlap` metres."""
    lower, upper = np.array(box.lower), np.array(box.upper)
    axis = int((upper - lower).argmax())
    if upper[axis] - lower[axis] < 4.0 * overlap:
        raise OptionError(
            f"a lattice of {lower.tolist()}..{upper.tolist()} m does not fit in memory and cannot "
            "be cut any more: use fewer rotations."
        )
    middle = 0.5 * (lower[axis] + upper[axis])
    first, second = upper.copy(), lower.copy()
    first[axis], second[axis] = middle + overlap, middle - overlap
    return (
        Box((lower[0], lower[1], lower[2]), (first[0], first[1], first[2])),
        Box((second[0], second[1], second[2]), (upper[0], upper[1], upper[2])),
    )
