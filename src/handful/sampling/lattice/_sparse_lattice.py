"""Energies over the occupied cells of a lattice: those near the points of the scene."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from handful.clouds import Box
from handful.geometry import pose_from_rotation_translation
from handful.models import MatchEnergy
from handful.sampling._target import Target

from ._dense_lattice import require_finite_keys
from ._grid import Grid, PositionMask, require_some
from ._lattice_energies import MAX_ENTRIES, LatticeEnergies
from ._lattice_kernels import add_beside

_FAR_AWAY = 1e3
"""Metres. At this distance from the scene the key field has its value of empty space."""


@dataclass(frozen=True, eq=False)
class SparseLattice:
    """E(x, R) over some cells x of the strongest query point, the anchor, and rotations R.

    A mask says which cells the lattice holds. The energies of every query point at these cells come
    from one matrix product. The other query points lie at x + R (q_i - q_anchor), between the
    cells. Each takes the energy of the cell that it is in, or the energy of empty space where the
    lattice does not hold that cell. The energies are exact for a single query point. For several
    they are an approximation that says where to look. The cost grows with the number of cells and
    not with the size of the workspace.

    Attributes:
        grid: Cubes that cover the workspace of the anchor.
        cells: Flat indices of the cubes that the lattice holds [cells].
        rotations: R_k [rotations, 3, 3].
        energies: E(x, R) [rotations, cells].
        anchor: q_anchor - c in the gripper frame [3], metres.
        exact: Whether the energies are those of the poses.
    """

    grid: Grid
    cells: Int[Tensor, "cells"]
    rotations: Float[Tensor, "rotations 3 3"]
    energies: Float[Tensor, "rotations cells"]
    anchor: Float[Tensor, "3"]
    exact: bool

    @classmethod
    def of(
        cls,
        target: Target,
        energy: MatchEnergy,
        spacing: float,
        rotations: Float[Tensor, "rotations 3 3"],
        generator: torch.Generator,
        mask: PositionMask,
    ) -> SparseLattice | None:
        """Evaluate the key field where the mask is true; None when there are too many cells."""
        queries = energy.queries
        strongest = int(queries.weights.argmax())
        anchor = queries.positions[strongest] - target.reference
        grid = Grid.over(_grown(target, float(anchor.norm())), spacing, generator, target.dtype)
        centres = grid.centres()
        (cells,) = mask(centres).nonzero(as_tuple=True)
        require_some(len(cells), len(centres))
        if len(cells) * len(rotations) > MAX_ENTRIES:
            return None
        keys = energy.field(centres[cells])
        require_finite_keys(keys)
        alone = [LatticeEnergies.of(energy, index, rotations) for index in range(len(queries))]
        (total,) = alone[strongest].by_rotation(keys, len(rotations))
        if len(queries) > 1:
            away = centres.new_full((1, 3), _FAR_AWAY)
            keys = torch.cat([keys, energy.field(away)])  # one more cell, for all empty space
        for index, lattice_energies in enumerate(alone):
            if index != strongest:
                offset = rotations @ (queries.positions[index] - queries.positions[strongest])
                (values,) = lattice_energies.by_rotation(keys, len(rotations))
                near = [tensor.numpy() for tensor in _numbered(grid, cells, offset)]
                add_beside(values.numpy(), *near, total.numpy())
        return cls(grid, cells, rotations, total, anchor, len(queries) == 1)

    def centred_poses(
        self, turn: Int[Tensor, "poses"], column: Int[Tensor, "poses"]
    ) -> Float[Tensor, "poses 4 4"]:
        """Centred poses (see `Target`) of entries of the energy matrix."""
        rotation = self.rotations[turn]
        where = self.grid.centres()[self.cells[column]] - rotation @ self.anchor
        return pose_from_rotation_translation(rotation, where)

    def beside(self) -> list[Int[Tensor, "cells"]]:
        """For each of six directions, the column of the cell beside each, or its own column."""
        steps = torch.cat([torch.eye(3), -torch.eye(3)]).to(self.grid.origin) * self.grid.spacing
        columns = _cells_beside(self.grid, self.cells, steps)
        own = torch.arange(len(self.cells))
        return [torch.where(column == len(own), own, column) for column in columns]


def _grown(target: Target, margin: float) -> Box:
    low, high = (target.lower - margin).tolist(), (target.upper + margin).tolist()
    return Box((low[0], low[1], low[2]), (high[0], high[1], high[2]))


def _cells_beside(
    grid: Grid, cells: Int[Tensor, "cells"], offsets: Float[Tensor, "offsets 3"]
) -> Int[Tensor, "offsets cells"]:
    """The column of the cell at each offset (metres) from each cell; `len(cells)` if none is."""
    number, place, moves = _numbered(grid, cells, offsets)
    return number[place + moves[:, None]]


def _numbered(
    grid: Grid, cells: Int[Tensor, "cells"], offsets: Float[Tensor, "offsets 3"]
) -> tuple[Int[Tensor, "cubes"], Int[Tensor, "cells"], Int[Tensor, "offsets"]]:
    """Where to look up the column of the cell at an offset (metres) from a cell.

    Returns:
        The column of each cube of a grid that is large enough, `len(cells)` for cubes without one;
        the cube of each cell; and by how many cubes each offset leads on.
    """
    moves = (offsets / grid.spacing).round().long()
    margin = int(moves.abs().max()) if len(moves) else 0
    padded = grid.grown(margin)
    number = torch.full((math.prod(padded.shape),), len(cells))
    _, y, z = grid.shape
    index = torch.stack([cells // (y * z), cells // z % y, cells % z], dim=1) + margin
    strides = torch.tensor([padded.shape[1] * padded.shape[2], padded.shape[2], 1])
    place = index @ strides
    number[place] = torch.arange(len(cells))
    return number, place, moves @ strides
