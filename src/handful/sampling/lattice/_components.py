"""Lattice distributions of a point of the gripper and of the rotation: parts of a proposal.

Each distribution is a probability p(cell, k) of the cube of space that holds a point T a of the
gripper and of the lattice rotation R_k.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from handful.errors import OptionError

from ._dense_lattice import DenseLattice, KeyGrid
from ._grid import Grid
from ._lattice_energies import MAX_ENTRIES, LatticeEnergies, rows_at_once


@dataclass(frozen=True, eq=False)
class Component(ABC):
    """One lattice distribution.

    Attributes:
        grid: The cubes.
        offset: a - c, from the reference point to the point that the cubes hold [3], metres in the
            gripper frame.
        log_rows: log Σ_k p(cell, k) [cells].
    """

    grid: Grid
    offset: Float[Tensor, "3"]
    log_rows: Float[Tensor, "cells"]

    @abstractmethod
    def log_rotations(self, cells: Int[Tensor, "draws"]) -> Float[Tensor, "draws rotations"]:
        """Log p(k | cell)."""


@dataclass(frozen=True, eq=False)
class Marginal(Component):
    """p_i ∝ exp(-β E_i(x, R) / tempering) of one query point, exact on the lattice.

    The factor β = Σw / w_i lets the query point stand for all: where all of them match, the sum of
    their energies has β times the curvature of the energy of query point i.

    Attributes:
        alone: The lattice energies of the query point.
        keys: φ at the centres of the cubes [cells, dim].
        strength: β / tempering.
    """

    alone: LatticeEnergies
    keys: Float[Tensor, "cells dim"]
    strength: float

    @classmethod
    def of(
        cls, grid: KeyGrid, index: int, rotations: Float[Tensor, "rotations 3 3"], tempering: float
    ) -> Marginal:
        """Sum over rotations, block by block."""
        weights = grid.energy.queries.weights
        strength = float(weights.sum() / weights[index]) / tempering
        alone = LatticeEnergies.of(grid.energy, index, rotations)
        parts = [
            (alone.at(block) * -strength).logsumexp(1)
            for block in grid.keys[grid.mask].split(rows_at_once(len(rotations)))
        ]
        log_rows = grid.keys.new_full((len(grid.keys),), -math.inf)
        log_rows[grid.mask] = torch.cat(parts).log_softmax(0)
        return cls(grid.outer, grid.offsets[index], log_rows, alone, grid.keys, strength)

    def log_rotations(self, cells: Int[Tensor, "draws"]) -> Float[Tensor, "draws rotations"]:
        """Log p_i(k | cell), computed again from the keys: the table was never held."""
        return (self.alone.at(self.keys[cells]) * -self.strength).log_softmax(1)


@dataclass(frozen=True, eq=False)
class Joint(Component):
    """p ∝ exp(-E(x, R) / tempering) of all query points, interpolated (see `DenseLattice`).

    Attributes:
        log_joint: log p(cell, k) [rotations, cells].
    """

    log_joint: Float[Tensor, "rotations cells"]

    @classmethod
    def of(
        cls, grid: KeyGrid, rotations: Float[Tensor, "rotations 3 3"], tempering: float
    ) -> Joint:
        """Hold the whole table.

        Raises:
            OptionError: The table is too large.
        """
        if len(rotations) * grid.inner.size > MAX_ENTRIES:
            raise OptionError(
                f"the joint lattice has {len(rotations)} rotations x {grid.inner.size} positions: "
                f"at most {MAX_ENTRIES} poses fit in memory. Use a larger spacing, fewer "
                'rotations, or proposal="marginals".'
            )
        lattice = DenseLattice.of(grid, rotations)
        slabs = [lattice.slab(start, stop).flatten(1) for start, stop in lattice.slabs()]
        table = torch.cat(slabs, dim=1).mul_(-1.0 / tempering)
        log_rows = table.logsumexp(0)
        total = log_rows.logsumexp(0)
        zero = torch.zeros_like(grid.offsets[0])
        return cls(grid.inner, zero, log_rows - total, table.sub_(total))

    def log_rotations(self, cells: Int[Tensor, "draws"]) -> Float[Tensor, "draws rotations"]:
        """Log p(k | cell), from the table."""
        return self.log_joint[:, cells].mT.log_softmax(1)
