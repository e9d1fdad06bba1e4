"""Exhaustive search: the whole lattice, its minima, a short refinement; anytime if asked."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from handful.geometry import rotation_lattice
from handful.models import MatchEnergy
from handful.sampling._sampler import Draw, Sampler
from handful.sampling._samples import distinct_poses
from handful.sampling._target import Target, require_count, require_positive, useful_match_energy

from ._dense_lattice import DenseLattice, KeyGrid
from ._grid import PositionMask
from ._minima import dense_minima, sparse_minima
from ._refinement import refine
from ._sparse_lattice import SparseLattice

_CANDIDATES = 1024
_FINER = math.sqrt(2.0)


@dataclass(frozen=True, kw_only=True)
class ExhaustiveSearch(Sampler):
    """The best poses of a `MatchEnergy`: all of a lattice, then refinement.

    The energies of all lattice poses come from one matrix product for each query point
    (`LatticeEnergies`). `refine` moves the best distinct minima of the lattice down to local minima
    of the energy. The result is the distinct local minima, at most `count` of them, best first.

    With a `time_budget`, lattices go from coarse to fine: the first has twice the spacing and an
    eighth of the rotations, every further one is finer by √2 in each dimension, as long as its
    predicted time fits; then the finest that fits is repeated with new random shifts. The result
    holds the best of all, and the budget is met to within a fifth once the first lattice is done.

    Attributes:
        spacing: Distance of neighbouring positions, metres.
        rotations: Number of rotations; 512 are about 0.5 rad apart.
        starts: How many lattice minima are refined, at least; `count` if that is more.
        refine_steps: Most steps of refinement. The best eight poses get as many steps again.
        mask: Which positions of query points to look at, for example `near_points` of the scene;
            all by default. The search is much faster when the mask leaves few positions.
        time_budget: Seconds for the anytime mode; None for one lattice.
    """

    spacing: float = 0.025
    rotations: int = 512
    starts: int = 48
    refine_steps: int = 8
    mask: PositionMask | None = None
    time_budget: float | None = None

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
        if self.time_budget is None:
            poses, energies = self._level(target, energy, count, generator, math.inf)
            return self._ended(poses, energies, count, levels=1)
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
            best = level._ended(poses, energies, max(count, self.starts), levels)
            poses, energies = best.centred, best.energies
            left = deadline - time.perf_counter()
            # Finer by √2 in six dimensions is at most eight times the work.
            if 8.0 * took < left:
                level = level._finer()
            elif took > left:
                return level._ended(poses, energies, count, levels)

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
        minima, energies = self._minima(target, energy, generator)
        if len(minima) == 0:  # The energy is the same everywhere.
            minima = target.uniform(max(count, self.starts), generator)
            energies = target.energies(minima)
        chosen = distinct_poses(
            minima, energies, self.resolution, self.spacing, limit=max(count, self.starts)
        )
        return refine(
            target,
            minima[chosen],
            steps=self.refine_steps,
            angle=0.5 * self.resolution,
            distance=0.5 * self.spacing,
            deadline=deadline,
        )

    def _minima(
        self, target: Target, energy: MatchEnergy, generator: torch.Generator
    ) -> tuple[Float[Tensor, "poses 4 4"], Float[Tensor, "poses"]]:
        """Minima of a sparse lattice if a mask leaves few enough cells, else of a dense one."""
        rotations = rotation_lattice(self.rotations, generator=generator, dtype=target.dtype)
        if self.mask is not None:
            sparse = SparseLattice.of(target, energy, self.spacing, rotations, generator, self.mask)
            if sparse is not None:
                target.lattice_poses += sparse.energies.numel()
                minima, energies = sparse_minima(sparse, _CANDIDATES)
                if not sparse.exact:
                    minima = target.clamped(minima)
                    energies = target.energies(minima)
                return minima, energies
        grid = KeyGrid.of(target, energy, self.spacing, generator, self.mask)
        target.lattice_poses += grid.inner.size * self.rotations
        return dense_minima(DenseLattice.of(grid, rotations), _CANDIDATES)

    def _ended(
        self,
        poses: Float[Tensor, "poses 4 4"],
        energies: Float[Tensor, "poses"],
        count: int,
        levels: int,
    ) -> Draw:
        """The distinct poses among the refined ones."""
        chosen = distinct_poses(
            poses, energies, 0.25 * self.resolution, 0.25 * self.spacing, limit=count
        )
        return Draw(poses[chosen], energies[chosen], levels=levels)
