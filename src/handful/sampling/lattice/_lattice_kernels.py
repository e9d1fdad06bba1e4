"""Compiled loops over the entries of a sparse lattice's energies."""

from __future__ import annotations

from typing import no_type_check

from handful._compiled import compiled


@compiled
@no_type_check
def add_beside(values, number, place, moves, total):
    """Add to each entry of `total` that of the cell beside it.

    Args:
        values: Energies [rotations, columns] of another query point.
        number: The column of each cube of a grid, flat.
        place: The cube of each column of `total`.
        moves: By how many cubes, flat, the other query point lies beside, for each rotation.
        total: Energies [rotations, cells], which are added to.
    """
    for k in range(len(moves)):
        for c in range(len(place)):
            total[k, c] += values[k, number[place[c] + moves[k]]]


@compiled
@no_type_check
def find_minima(energies, ceiling, beside, near, turns, cells):
    """Find entries that no neighbour is below; returns how many there are.

    They are written down, in the order of rotations and then of cells, while there is room.

    Args:
        energies: [rotations, cells].
        ceiling: Entries above this are no minima.
        beside: For each direction the cell beside each cell, or its own number.
        near: For each rotation its neighbours.
        turns: Rotations of the minima.
        cells: Cells of the minima.
    """
    found = 0
    for k in range(energies.shape[0]):
        for c in range(energies.shape[1]):
            value = energies[k, c]
            if value > ceiling:
                continue
            lowest = True
            for direction in range(len(beside)):
                if energies[k, beside[direction, c]] < value:
                    lowest = False
                    break
            if not lowest:
                continue
            for n in range(near.shape[1]):
                if energies[near[k, n], c] < value:
                    lowest = False
                    break
            if lowest:
                if found < len(turns):
                    turns[found] = k
                    cells[found] = c
                found += 1
    return found
