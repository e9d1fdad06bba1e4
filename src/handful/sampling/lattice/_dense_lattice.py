"""Energies of several query points together, over every cell of a grid of the reference point."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from handful.models import MatchEnergy
from handful.sampling._target import EnergyError, Target

from ._grid import Grid, PositionMask, require_some
from ._lattice_energies import MAX_ENTRIES, LatticeEnergies

_FIELD_CHUNK = 16_384
_CACHED = 524_288  # Entries: 2 MB in float32.


@dataclass(frozen=True, eq=False)
class KeyGrid:
    """The key field at the centres of a grid that holds every query point of every pose.

    Attributes:
        energy: The energy, with the query points of positive weight only.
        inner: Cubes of the reference point T c; they cover the workspace.
        outer: The inner cubes and `margin` more on every side, for the query points T q_i.
        margin: How many cubes the outer grid has more than the inner one, on every side.
        offsets: q_i - c [queries, 3], metres in the gripper frame.
        keys: φ at the centres of the outer cubes [cells, dim]; zero where the mask is false.
        mask: The cubes where φ was evaluated [cells].
    """

    energy: MatchEnergy
    inner: Grid
    outer: Grid
    margin: int
    offsets: Float[Tensor, "queries 3"]
    keys: Float[Tensor, "cells dim"]
    mask: Bool[Tensor, "cells"]

    @classmethod
    def of(
        cls,
        target: Target,
        energy: MatchEnergy,
        spacing: float,
        generator: torch.Generator,
        mask: PositionMask | None,
    ) -> KeyGrid:
        """Evaluate the key field over the workspace and around it."""
        offsets = energy.queries.positions - target.reference
        inner = Grid.over(target.workspace, spacing, generator, target.dtype)
        reach = float(offsets.square().sum(-1).max().sqrt()) / spacing
        # A single query point at the reference needs no margin; rounding must not ask for one.
        margin = 0 if reach < 1e-3 else math.floor(reach + 1e-3) + 1
        outer = inner.grown(margin)
        centres = outer.centres()
        inside = centres.new_ones(len(centres), dtype=torch.bool)
        if mask is not None:
            inside = mask(centres)
            require_some(int(inside.sum()), len(centres))
        found = [energy.field(chunk) for chunk in centres[inside].split(_FIELD_CHUNK)]
        keys = centres.new_zeros(len(centres), energy.types.dim)
        keys[inside] = torch.cat(found)
        require_finite_keys(keys)
        return cls(energy, inner, outer, margin, offsets, keys, inside)


@dataclass(frozen=True, eq=False)
class DenseLattice:
    """E(x, R) of all query points together over a lattice of the reference point x and of R.

    A query point lies at x + R (q_i - c), between the lattice positions. Its energy there is
    interpolated (trilinear) from its own lattice energies, which come from one matrix product. For
    a single query point at the reference, nothing is interpolated and the energies are exact.

    Attributes:
        grid: The key field on the grid.
        rotations: R_k [rotations, 3, 3].
        alone: The lattice energies of each query point.
    """

    grid: KeyGrid
    rotations: Float[Tensor, "rotations 3 3"]
    alone: list[LatticeEnergies]

    @classmethod
    def of(cls, grid: KeyGrid, rotations: Float[Tensor, "rotations 3 3"]) -> DenseLattice:
        """Turn the descriptor of every query point by every rotation."""
        queries = range(len(grid.energy.queries))
        alone = [LatticeEnergies.of(grid.energy, index, rotations) for index in queries]
        return cls(grid, rotations, alone)

    def slabs(self) -> Iterator[tuple[int, int]]:
        """Ranges along x that together cover the inner grid, small enough to be held at once."""
        count, rows = self.grid.inner.shape[0], self.grid.outer.shape
        per_row = len(self.rotations) * rows[1] * rows[2]
        thick = max(1, MAX_ENTRIES // per_row - 2 * self.grid.margin - 2)
        for start in range(0, count, thick):
            yield start, min(start + thick, count)

    def slab(self, start: int, stop: int) -> Float[Tensor, "rotations x y z"]:
        """Energies for the inner cubes of the rows `start` to `stop` along x."""
        outer, margin = self.grid.outer, self.grid.margin
        row = outer.shape[1] * outer.shape[2]
        part = slice(start * row, (stop + 2 * margin) * row)
        keys, mask = self.grid.keys[part], self.grid.mask[part]
        shape = (stop - start + 2 * margin, *outer.shape[1:])
        if not margin:
            (energies,) = self.alone[0].by_rotation(keys, len(self.rotations))
            return self._filled(energies, mask).unflatten(1, shape)
        total = keys.new_zeros(len(self.rotations), stop - start, *self.grid.inner.shape[1:])
        # Few rotations at a time: their volumes are then still in the cache when they are shifted.
        some = max(1, _CACHED // len(keys))
        for index, alone in enumerate(self.alone):
            first = 0
            for energies in alone.by_rotation(keys, some):
                which = slice(first, first + len(energies))
                volume = self._filled(energies, mask).unflatten(1, shape)
                self._add_shifted(total[which], volume, index, which)
                first += len(energies)
        return total

    @staticmethod
    def _filled(energies: Tensor, mask: Tensor) -> Tensor:
        """The energies, with the worst of them where the field was not evaluated."""
        if not bool(mask.all()):
            energies[:, ~mask] = energies.max()
        return energies

    def _add_shifted(self, total: Tensor, volume: Tensor, query: int, which: slice) -> None:
        """Add volume[k] at x + R_k d instead of x, for the inner cubes."""
        moves = (self.rotations[which] @ self.grid.offsets[query]) / self.grid.inner.spacing
        whole = moves.floor()
        p, q, s = (moves - whole)[:, :, None, None, None].unbind(1)
        strides = volume.new_tensor(volume.stride(), dtype=torch.long)
        corners = (whole.long() + self.grid.margin) @ strides[1:]
        starts = (corners + torch.arange(len(volume)) * strides[0]).tolist()
        size, stride = [length + 1 for length in total.shape[1:]], volume.stride()[1:]
        blocks = torch.stack([volume.as_strided(size, stride, start) for start in starts])
        blocks = torch.lerp(blocks[:, :-1], blocks[:, 1:], p)
        blocks = torch.lerp(blocks[:, :, :-1], blocks[:, :, 1:], q)
        total.add_(torch.lerp(blocks[:, :, :, :-1], blocks[:, :, :, 1:], s))


def require_finite_keys(keys: Float[Tensor, "positions dim"]) -> None:
    """Refuse a key field that is not a number somewhere.

    Raises:
        EnergyError: A value is infinite or NaN.
    """
    if not bool(torch.isfinite(keys).all()):
        bad = int((~torch.isfinite(keys)).any(1).sum())
        raise EnergyError(
            f"the key field is not finite at {bad} of {len(keys)} lattice positions: it must "
            "be a number everywhere in the workspace."
        )
