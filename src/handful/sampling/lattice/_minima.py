"""Local minima of the lattice energies: where refinement starts."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from scipy.spatial import cKDTree
from torch import Tensor

from handful.geometry import pose_from_rotation_translation, rotation_to_quat

from ._dense_lattice import DenseLattice
from ._sparse_lattice import SparseLattice

_NEIGHBOURS = 12
_LOWEST = 0.02  # Share of the lattice in which minima are sought.
_SUBSAMPLE = 20_000


def dense_minima(
    lattice: DenseLattice, limit: int
) -> tuple[Float[Tensor, "minima 4 4"], Float[Tensor, "minima"]]:
    """Centred poses without a neighbour of lower energy on the lattice, and energies, best first.

    Neighbours of a position are the six cubes that share a face with its cube; neighbours of a
    rotation are the twelve nearest. Minima are sought in the lowest two percent of the lattice.

    Args:
        lattice: The lattice energies.
        limit: Most minima to return.
    """
    neighbours = nearest_rotations(lattice.rotations)
    count = lattice.grid.inner.shape[0]
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for start, stop in lattice.slabs():
        before, after = max(start - 1, 0), min(stop + 1, count)
        energies = lattice.slab(before, after)
        value, turn, cell = _slab_minima(energies, neighbours)
        row = energies.shape[2] * energies.shape[3]
        cell = cell + before * row
        inside = (cell >= start * row) & (cell < stop * row)
        parts.append((value[inside], turn[inside], cell[inside]))
    value, turn, cell = (torch.cat(part) for part in zip(*parts, strict=True))
    order = value.argsort(stable=True)[:limit]
    centres = lattice.grid.inner.centres()[cell[order]]
    return pose_from_rotation_translation(lattice.rotations[turn[order]], centres), value[order]


def sparse_minima(
    lattice: SparseLattice, limit: int
) -> tuple[Float[Tensor, "minima 4 4"], Float[Tensor, "minima"]]:
    """Minima among the cells of a sparse lattice, as `dense_minima` returns them."""
    energies = lattice.energies
    turn, column = (energies <= _ceiling(energies)).nonzero(as_tuple=True)
    value = energies[turn, column]
    for beside in lattice.beside():
        low = value <= energies[turn, beside[column]]
        value, turn, column = value[low], turn[low], column[low]
    neighbours = nearest_rotations(lattice.rotations)
    low = value <= energies[neighbours[turn], column[:, None]].amin(1)
    value, turn, column = value[low], turn[low], column[low]
    order = value.argsort(stable=True)[:limit]
    return lattice.centred_poses(turn[order], column[order]), value[order]


def _slab_minima(
    energies: Float[Tensor, "rotations x y z"], neighbours: Int[Tensor, "rotations near"]
) -> tuple[Tensor, Tensor, Tensor]:
    """Energy, rotation and cell within the slab of its local minima."""
    flat = energies.flatten()
    place = (flat <= _ceiling(energies)).nonzero().squeeze(1)
    value = flat[place]
    _, x, y, z = energies.shape
    for stride, size in ((y * z, x), (z, y), (1, z)):
        along = place // stride % size
        lower = flat[place - stride * (along > 0)]
        upper = flat[place + stride * (along < size - 1)]
        low = (value <= lower) & (value <= upper)
        value, place = value[low], place[low]
    turn, cell = place // (x * y * z), place % (x * y * z)
    low = value <= flat[neighbours[turn] * (x * y * z) + cell[:, None]].amin(1)
    return value[low], turn[low], cell[low]


def _ceiling(energies: Tensor) -> Tensor:
    """The energy below which minima are sought."""
    flat = energies.flatten()
    return flat[:: max(1, len(flat) // _SUBSAMPLE)].quantile(_LOWEST)


def nearest_rotations(
    rotations: Float[Tensor, "rotations 3 3"], count: int = _NEIGHBOURS
) -> Int[Tensor, "rotations near"]:
    """Indices of the rotations nearest to each rotation, its own index left out."""
    quats = rotation_to_quat(rotations.double())
    near = min(count, len(rotations) - 1)
    tree = cKDTree(torch.cat([quats, -quats]).numpy())
    # q and -q may both be among the nearest only when there are very few rotations.
    _, found = tree.query(quats.numpy(), k=near + 1)
    index = torch.as_tensor(found).reshape(len(rotations), -1)[:, 1:] % len(rotations)
    return index if near else torch.arange(len(rotations))[:, None]
