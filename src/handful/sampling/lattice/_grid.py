"""Lattices of positions and rotations, shifted and turned at random."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from handful.clouds import Box, NeighbourIndex
from handful.errors import OptionError
from handful.geometry import rotation_lattice
from handful.sampling._target import require_count, require_positive

PositionMask = Callable[[Tensor], Tensor]
"""Positions [n, 3] in metres to a mask [n] that is true where a lattice holds the position."""

MAX_CELLS = 4_000_000


class NothingToSearch(OptionError):
    """A mask leaves no position of a lattice."""


def cells_over(workspace: Box, spacing: float) -> int:
    """How many cubes `Grid.over` needs at most."""
    sides = (upper - lower for lower, upper in zip(workspace.lower, workspace.upper, strict=True))
    return math.prod(math.ceil(side / spacing) + 1 for side in sides)


@dataclass(frozen=True, eq=False)
class Grid:
    """Cubes of one size that tile a box of space.

    Attributes:
        origin: Lowest corner of the lowest cube [3], metres.
        spacing: Side of a cube, metres.
        shape: Cubes along x, y and z.
    """

    origin: Float[Tensor, "3"]
    spacing: float
    shape: tuple[int, int, int]

    @classmethod
    def over(
        cls, workspace: Box, spacing: float, generator: torch.Generator, dtype: torch.dtype
    ) -> Grid:
        """The cubes that touch a box, shifted at random."""
        require_positive(spacing=spacing)
        shift = torch.rand(3, generator=generator, dtype=torch.float64)
        lower = torch.tensor(workspace.lower, dtype=torch.float64)
        upper = torch.tensor(workspace.upper, dtype=torch.float64)
        x, y, z = ((upper - lower) / spacing + shift).ceil().long().tolist()
        if x * y * z > MAX_CELLS:
            raise OptionError(
                f"spacing is {spacing} m, which cuts the workspace {workspace.lower}.."
                f"{workspace.upper} into {x * y * z} cells: use at most {MAX_CELLS}."
            )
        return cls((lower - shift * spacing).to(dtype), spacing, (x, y, z))

    def grown(self, cells: int) -> Grid:
        """The grid with `cells` more cubes on every side."""
        x, y, z = self.shape
        origin = self.origin - cells * self.spacing
        return Grid(origin, self.spacing, (x + 2 * cells, y + 2 * cells, z + 2 * cells))

    @property
    def size(self) -> int:
        """Number of cubes."""
        return math.prod(self.shape)

    def centres(self) -> Float[Tensor, "cells 3"]:
        """Centres of all cubes, z fastest."""
        axes = [torch.arange(count, dtype=self.origin.dtype) + 0.5 for count in self.shape]
        index = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, 2)
        return self.origin + self.spacing * index

    def cells_of(self, points: Float[Tensor, "points 3"]) -> Int[Tensor, "points"]:
        """Flat index of the cube that each point is in; -1 for a point in none of them."""
        index = ((points - self.origin) / self.spacing).floor().long()
        shape = torch.tensor(self.shape)
        inside = ((index >= 0) & (index < shape)).all(-1)
        x, y, z = index.unbind(-1)
        return torch.where(inside, (x * shape[1] + y) * shape[2] + z, -1)


@dataclass(frozen=True, eq=False)
class PoseLattice:
    """All pairs of a position and a rotation, each pair standing for the same volume of poses.

    Attributes:
        positions: Where the query point is, x = T q [positions, 3], metres in the scene frame.
        rotations: R [rotations, 3, 3].
        log_cell: Log of the volume of dR d³x that one pair stands for, in m³ with ∫dR = 1.
    """

    positions: Float[Tensor, "positions 3"]
    rotations: Float[Tensor, "rotations 3 3"]
    log_cell: float

    def __len__(self) -> int:
        return len(self.positions) * len(self.rotations)


def pose_lattice(
    workspace: Box,
    spacing: float,
    rotations: int,
    generator: torch.Generator,
    *,
    dtype: torch.dtype = torch.float32,
    mask: PositionMask | None = None,
) -> PoseLattice:
    """A cubic lattice of positions inside a box and a lattice of rotations.

    The positions are shifted by one uniform draw, and the rotations are turned by another. Every
    lattice pose by itself is then uniformly distributed. The sum of f over the lattice, times the
    volume of a cell, is therefore an *unbiased* estimate of ∫ f dR d³x, for every f, every spacing
    and every number of rotations. The integral is over the positions in the box where the mask is
    true, and over all rotations.

    Args:
        workspace: Bounds of the positions, metres.
        spacing: Distance of neighbouring positions, metres.
        rotations: How many rotations (`geometry.rotation_lattice`).
        generator: Source of randomness.
        dtype: Type of the result.
        mask: Which positions the lattice holds, for example `near_points`; all by default. The
            positions left out count as if they had probability zero.

    Raises:
        OptionError: No position is left.
    """
    require_count(rotations=rotations)
    centres = Grid.over(workspace, spacing, generator, dtype).centres()
    lower, upper = centres.new_tensor(workspace.lower), centres.new_tensor(workspace.upper)
    positions = centres[((centres >= lower) & (centres <= upper)).all(-1)]
    if mask is not None:
        positions = positions[mask(positions)]
    if len(positions) == 0:
        raise OptionError(
            f"no lattice position is left: spacing is {spacing} m in the workspace "
            f"{workspace.lower}..{workspace.upper}; use a smaller spacing or a wider `mask`."
        )
    turns = rotation_lattice(rotations, generator=generator, dtype=dtype)
    return PoseLattice(positions, turns, 3.0 * math.log(spacing) - math.log(rotations))


def near_points(points: Float[Tensor, "points 3"], radius: float) -> PositionMask:
    """A mask of the positions that are at most `radius` metres from one of the points."""
    require_positive(radius=radius)
    index = NeighbourIndex(points.detach().numpy())

    def mask(positions: Float[Tensor, "positions 3"]) -> Bool[Tensor, "positions"]:
        return torch.from_numpy(index.near(positions.detach().numpy(), radius))

    return mask


def require_some(cells: int, of: int) -> None:
    """Refuse a mask that is true nowhere on a grid.

    Raises:
        NothingToSearch: It leaves no cell.
    """
    if cells == 0:
        raise NothingToSearch(
            f"`mask` leaves none of {of} lattice positions: widen its radius, or move the "
            "workspace to where the points are."
        )
