"""Energies of one query point over a lattice of positions and rotations, from one matrix product.

For a query point q with x = T q, eq. energy_pick expands to

    E(x, R) = w (|φ(x)|² + |ψ|² - 2 φ(x)ᵀ D(R) ψ) / temperature = a(x)ᵀ b(R),

    a(x) = (φ(x), |φ(x)|², 1),    b(R) = w (-2 D(R) ψ, 1, |ψ|²) / temperature,

and the energies of all pairs of a position and a rotation are the matrix product A Bᵀ. Every
lattice of this package takes its energies from here. `models.MatchEnergy` computes the same
numbers pose by pose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from handful.models import MatchEnergy

MAX_ENTRIES = 16_777_216
"""Most entries of an energy matrix that exists at one time: 64 MB in float32."""


@dataclass(frozen=True, eq=False)
class LatticeEnergies:
    """What the lattice energies of one query point are computed from.

    Attributes:
        energy: The energy, of which the norm, the temperature and one query point are used.
        index: Which query point.
        turned: D(R_k) ψ [rotations, dim].
    """

    energy: MatchEnergy
    index: int
    turned: Float[Tensor, "rotations dim"]

    @classmethod
    def of(
        cls, energy: MatchEnergy, index: int, rotations: Float[Tensor, "rotations 3 3"]
    ) -> LatticeEnergies:
        """Turn the descriptor of a query point by every rotation of the lattice."""
        return cls(
            energy, index, energy.types.rotated(energy.queries.descriptors[index], rotations)
        )

    def at(self, keys: Float[Tensor, "positions dim"]) -> Float[Tensor, "positions rotations"]:
        """w_i E_i(x, R) of the query point, for key descriptors φ(x)."""
        if self.energy.norm == "squared":
            return self.key_side(keys) @ self.rotation_side().mT
        return self._irrepwise(keys) * (self._weight() / self.energy.temperature)

    def by_rotation(
        self, keys: Float[Tensor, "positions dim"], count: int
    ) -> Iterator[Float[Tensor, "rotations positions"]]:
        """The transpose of `at` with positions contiguous, `count` rotations at a time."""
        if self.energy.norm == "squared":
            side = self.key_side(keys).mT.contiguous()
            for rows in self.rotation_side().split(count):
                yield rows @ side
        else:
            for turned in self.turned.split(count):
                some = LatticeEnergies(self.energy, self.index, turned)
                yield some.at(keys).mT.contiguous()

    @staticmethod
    def key_side(keys: Float[Tensor, "positions dim"]) -> Float[Tensor, "positions entries"]:
        """The rows a(x)."""
        square = keys.square().sum(-1, keepdim=True)
        return torch.cat([keys, square, torch.ones_like(square)], dim=-1)

    def rotation_side(self) -> Float[Tensor, "rotations entries"]:
        """The rows b(R)."""
        square = self.turned.square().sum(-1, keepdim=True)
        rows = torch.cat([-2.0 * self.turned, torch.ones_like(square), square], dim=-1)
        return rows * (self._weight() / self.energy.temperature)

    def _weight(self) -> Tensor:
        return self.energy.queries.weights[self.index]

    def _irrepwise(self, keys: Tensor) -> Tensor:
        """Σ over the type-l vectors of |φ_c - D_l ψ_c| (appendix E): one product for each."""
        types = self.energy.types
        total = keys.new_zeros(len(keys), len(self.turned))
        key_blocks = keys.split(types.sizes, dim=-1)
        turned_blocks = self.turned.split(types.sizes, dim=-1)
        for degree, count in enumerate(types.channels):
            shape = (2 * degree + 1, count)
            left = key_blocks[degree].unflatten(-1, shape)
            right = turned_blocks[degree].unflatten(-1, shape)
            for channel in range(count):
                a, b = left[..., channel], right[..., channel]
                square = a.square().sum(-1)[:, None] + b.square().sum(-1) - 2.0 * (a @ b.mT)
                total = total + square.clamp_min(1e-24).sqrt()
        return total


def rows_at_once(columns: int) -> int:
    """How many rows with the given number of columns stay within `MAX_ENTRIES`."""
    return max(1, MAX_ENTRIES // max(columns, 1))
