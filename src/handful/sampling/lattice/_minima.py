"""Local minima of the lattice energies: where refinement starts."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.spatial import cKDTree
from torch import Tensor

from handful.geometry import pose_from_rotation_translation, rotation_lattice, rotation_to_quat

from ._dense_lattice import DenseLattice
from ._lattice_kernels import find_minima
from ._sparse_lattice import SparseLattice

_NEIGHBOURS = 12
_LOWEST = 0.02  # Share of the lattice in which minima are sought.
_SUBSAMPLE = 20_000
_ROOM = 4096
"""Minima that are looked for at first."""
_SAME = 1e-5  # Entries of two equal rotation matrices differ by no more, in single precision.


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
    energies = lattice.energies.numpy()
    beside = torch.stack(lattice.beside()).numpy()
    near = nearest_rotations(lattice.rotations).numpy()
    given = energies, float(_ceiling(lattice.energies)), beside, near
    count = room = _ROOM
    while count >= room:
        room = count + 1
        turns, cells = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
        count = find_minima(*given, turns, cells)
    turns, cells = turns[:count], cells[:count]
    value = energies[turns, cells]
    order = np.argsort(value, kind="stable")[:limit]
    turn, where = torch.from_numpy(turns[order]), torch.from_numpy(cells[order])
    return lattice.centred_poses(turn, where), torch.from_numpy(value[order])


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
    flat = energies.flatten().numpy()
    some = flat[:: max(1, len(flat) // _SUBSAMPLE)]
    return torch.as_tensor(np.quantile(some, _LOWEST), dtype=energies.dtype)


def nearest_rotations(
    rotations: Float[Tensor, "rotations 3 3"], count: int = _NEIGHBOURS
) -> Int[Tensor, "rotations near"]:
    """Indices of the rotations nearest to each rotation, its own index left out.

    A `rotation_lattice` that is turned as a whole has the same neighbours, which are kept.
    """
    lattice, found = _lattice_neighbours(len(rotations), count)
    same = torch.allclose(_relative(rotations.double()), lattice, rtol=0.0, atol=_SAME)
    return found if same else _nearest(rotations, count)


@lru_cache(maxsize=16)
def _lattice_neighbours(
    rotations: int, count: int
) -> tuple[Float[Tensor, "rotations 3 3"], Int[Tensor, "rotations near"]]:
    """A lattice of rotations relative to its first one, and the neighbours on it."""
    lattice = rotation_lattice(rotations, dtype=torch.float64)
    return _relative(lattice), _nearest(lattice, count)


def _relative(rotations: Float[Tensor, "rotations 3 3"]) -> Float[Tensor, "rotations 3 3"]:
    return rotations[0].mT @ rotations


def _nearest(
    rotations: Float[Tensor, "rotations 3 3"], count: int
) -> Int[Tensor, "rotations near"]:
    quats = rotation_to_quat(rotations.double())
    near = min(count, len(rotations) - 1)
    tree = cKDTree(torch.cat([quats, -quats]).numpy())
    # q and -q may both be among the nearest only when there are very few rotations.
    _, found = tree.query(quats.numpy(), k=near + 1)
    index = torch.as_tensor(found).reshape(len(rotations), -1)[:, 1:] % len(rotations)
    return index if near else torch.arange(len(rotations))[:, None]
