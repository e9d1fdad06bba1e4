"""Energies over the part of a lattice that is worth looking at: where there are points."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from handful.clouds import Box
from handful.errors import OptionError
from handful.geometry import pose_from_rotation_translation
from handful.models import MatchEnergy

from ._grid import Grid, Keep
from ._scores import MAX_ENTRIES, QueryScores
from ._target import Target
from ._volume import require_finite_keys

_FAR_AWAY = 1e3
"""Metres. So far from everything, the key field has its value of empty space."""


@dataclass(frozen=True, eq=False)
class KeptVolume:
    """E(x, R) over the kept cells x of the strongest query point, the anchor, and rotations R.

    The energies of every query point at the kept cells come from one matrix product. The other
    query points lie at x + R (q_i - q_anchor), between the cells: they take the energy of the cell
    that they are in, and where that is not kept, the energy of empty space. So energies are exact
    for a single query point, and a good guess where to look for several. The cost grows with the
    number of points and not with the size of the workspace.

    Attributes:
        grid: Cubes that cover the workspace of the anchor.
        cells: Flat indices of the kept ones [kept].
        rotations: R_k [rotations, 3, 3].
        energies: E(x, R) [rotations, kept].
        anchor: q_anchor - c in the gripper frame [3], metres.
        exact: Whether the energies are those of the poses.
    """

    grid: Grid
    cells: Int[Tensor, "kept"]
    rotations: Float[Tensor, "rotations 3 3"]
    energies: Float[Tensor, "rotations kept"]
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
        keep: Keep,
    ) -> KeptVolume | None:
        """Evaluate the key field at the kept cells; None when there are too many of them."""
        queries = energy.queries
        strongest = int(queries.weights.argmax())
        anchor = queries.positions[strongest] - target.reference
        grid = Grid.over(_grown(target, float(anchor.norm())), spacing, generator, target.dtype)
        centres = grid.centres()
        (cells,) = keep(centres).nonzero(as_tuple=True)
        if len(cells) == 0:
            raise OptionError(
                f"`keep` leaves none of {len(centres)} lattice positions: widen its radius."
            )
        if len(cells) * len(rotations) > MAX_ENTRIES:
            return None
        keys = energy.field(centres[cells])
        require_finite_keys(keys)
        scores = [QueryScores.of(energy, index, rotations) for index in range(len(queries))]
        (total,) = scores[strongest].energies_by_rotation(keys, len(rotations))
        if len(queries) > 1:
            away = centres.new_full((1, 3), _FAR_AWAY)
            keys = torch.cat([keys, energy.field(away)])  # one more cell, for all empty space
        for index, score in enumerate(scores):
            if index != strongest:
                offset = rotations @ (queries.positions[index] - queries.positions[strongest])
                column = _cells_beside(grid, cells, offset)
                (alone,) = score.energies_by_rotation(keys, len(rotations))
                total += alone.gather(1, column)
        return cls(grid, cells, rotations, total, anchor, len(queries) == 1)

    def centred_poses(
        self, turn: Int[Tensor, "poses"], column: Int[Tensor, "poses"]
    ) -> Float[Tensor, "poses 4 4"]:
        """Centred poses (see `Target`) of entries of the energy matrix."""
        rotation = self.rotations[turn]
        where = self.grid.centres()[self.cells[column]] - rotation @ self.anchor
        return pose_from_rotation_translation(rotation, where)

    def beside(self) -> list[Int[Tensor, "kept"]]:
        """For each of six directions, the kept cell next to each kept one, or itself."""
        steps = torch.cat([torch.eye(3), -torch.eye(3)]).to(self.grid.origin) * self.grid.spacing
        columns = _cells_beside(self.grid, self.cells, steps)
        own = torch.arange(len(self.cells))
        return [torch.where(column == len(own), own, column) for column in columns]


def _grown(target: Target, margin: float) -> Box:
    low, high = (target.lower - margin).tolist(), (target.upper + margin).tolist()
    return Box((low[0], low[1], low[2]), (high[0], high[1], high[2]))


def _cells_beside(
    grid: Grid, cells: Int[Tensor, "kept"], offsets: Float[Tensor, "offsets 3"]
) -> Int[Tensor, "offsets kept"]:
    """Which of the kept cells is at an offset in metres from each of them; `kept` if none."""
    moves = (offsets / grid.spacing).round().long()
    margin = int(moves.abs().max()) if len(moves) else 0
    padded = grid.grown(margin)
    number = torch.full((math.prod(padded.shape),), len(cells))
    _, y, z = grid.shape
    index = torch.stack([cells // (y * z), cells // z % y, cells % z], dim=1) + margin
    strides = torch.tensor([padded.shape[1] * padded.shape[2], padded.shape[2], 1])
    place = index @ strides
    number[place] = torch.arange(len(cells))
    return number[place + (moves @ strides)[:, None]]
