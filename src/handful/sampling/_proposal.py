"""A proposal density on poses made of the lattice marginals of single query points.

Query point i alone has the lattice distribution p_i(cell, k) ∝ exp(-E_i(x_cell, R_k)), exact and
from one matrix product. The proposal draws i with probability w_i / Σw, a cell and a rotation from
p_i, then x_i uniformly in the cube of the cell and R uniformly in a ball of radius ρ around R_k,
and sets v = x_i - R q_i. With a uniform share α against zeros, its density w.r.t. dR d³v is

    Q(T) = (1 - α) Σ_i (w_i / Σw) Σ_k p_i(cell(T q_i), k) · 1[angle(R_k, R) < ρ] / (s³ V(ρ))
           + α / |workspace|,

with V(ρ) = (ρ - sin ρ)/π the volume of the ball. Cubes tile space, so the sum over cells has one
term. Q is a normalised density that can be evaluated at every pose, and it is positive wherever the
target is: so weights exp(-E)/Q make averages over draws exact as the number of draws grows, for any
lattice, and an independence chain with these proposals has the target as its stationary law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from handful.geometry import (
    pose_from_rotation_translation,
    rotation_exp,
    rotation_to_quat,
)

from ._scores import QueryScores, rows_at_once
from ._target import Target
from ._volume import KeyGrid

_BALL_SHARE = 6.0  # Lattice rotations in a ball, on average: balls then overlap and leave no gap.
_BISECTIONS = 60


@dataclass(frozen=True, eq=False)
class LatticeProposal:
    """The density Q of this module's docstring, to draw from and to evaluate.

    Attributes:
        target: What is sampled in the end.
        grid: The key field on the grid.
        rotations: R_k [rotations, 3, 3].
        scores: One for each query point.
        log_rows: log Σ_k p_i(cell, k) [queries, cells].
        tempering: Single-query energies are divided by it.
        uniform_share: α.
    """

    target: Target
    grid: KeyGrid
    rotations: Float[Tensor, "rotations 3 3"]
    scores: list[QueryScores]
    log_rows: Float[Tensor, "queries cells"]
    tempering: float
    uniform_share: float

    @classmethod
    def of(
        cls,
        target: Target,
        grid: KeyGrid,
        rotations: Float[Tensor, "rotations 3 3"],
        tempering: float,
        uniform_share: float,
    ) -> LatticeProposal:
        """Sum the lattice distribution of every query point over rotations."""
        scores = [
            QueryScores.of(grid.energy, index, rotations)
            for index in range(len(grid.energy.queries))
        ]
        log_rows = grid.keys.new_full((len(scores), len(grid.keys)), -math.inf)
        for index, score in enumerate(scores):
            parts = [
                (score.energies(block) / -tempering).logsumexp(1)
                for block in grid.keys[grid.kept].split(rows_at_once(len(rotations)))
            ]
            log_rows[index, grid.kept] = torch.cat(parts).log_softmax(0)
        return cls(target, grid, rotations, scores, log_rows, tempering, uniform_share)

    @property
    def shares(self) -> Float[Tensor, "queries"]:
        """Probability of each query point, w_i / Σw."""
        weights = self.grid.energy.queries.weights
        return weights / weights.sum()

    @property
    def radius(self) -> float:
        """ρ, radians."""
        return ball_radius(min(1.0, _BALL_SHARE / len(self.rotations)))

    def draw(self, count: int, generator: torch.Generator) -> Float[Tensor, "draws 4 4"]:
        """Centred poses from Q; some may be outside of the workspace."""
        odds = torch.cat(
            [(1.0 - self.uniform_share) * self.shares, self.shares.new_tensor([self.uniform_share])]
        )
        which = odds.double().multinomial(count, replacement=True, generator=generator)
        numbers = which.bincount(minlength=len(odds)).tolist()
        parts = [
            self._draw_query(index, number, generator)
            for index, number in enumerate(numbers[:-1])
            if number
        ]
        if numbers[-1]:
            parts.append(self.target.uniform(numbers[-1], generator))
        mixed = torch.randperm(count, generator=generator)
        return torch.cat(parts)[mixed]

    def log_density(self, centred: Float[Tensor, "draws 4 4"]) -> Float[Tensor, "draws"]:
        """Log Q with respect to dR d³v, for poses inside the workspace."""
        parts = [self._log_density(chunk) for chunk in centred.split(self._rows)]
        return torch.cat(parts)

    @property
    def _rows(self) -> int:
        return rows_at_once(4 * len(self.rotations))

    def _draw_query(self, index: int, count: int, generator: torch.Generator) -> Tensor:
        rows = self.log_rows[index].double().exp()
        cells = rows.multinomial(count, replacement=True, generator=generator)
        turns = torch.cat(
            [
                self._log_rotations(index, chunk).exp().multinomial(1, generator=generator)
                for chunk in cells.split(self._rows)
            ]
        ).squeeze(1)
        outer, dtype = self.grid.outer, self.target.dtype
        place = torch.rand(count, 3, generator=generator, dtype=dtype) - 0.5
        where = outer.centres()[cells] + outer.spacing * place
        ball = ball_rotations(self.radius, count, generator).to(dtype)
        rotation = self.rotations[turns] @ ball
        return pose_from_rotation_translation(rotation, where - rotation @ self.grid.offsets[index])

    def _log_rotations(self, index: int, cells: Int[Tensor, "draws"]) -> Tensor:
        """Log p_i(k | cell) [draws, rotations]."""
        energies = self.scores[index].energies(self.grid.keys[cells])
        return (energies / -self.tempering).log_softmax(1)

    def _log_density(self, centred: Tensor) -> Tensor:
        rotation, where = centred[:, :3, :3], centred[:, :3, 3]
        cosine = rotation_to_quat(rotation) @ rotation_to_quat(self.rotations).mT
        outside = cosine.abs() < math.cos(0.5 * self.radius)
        radius, outer = self.radius, self.grid.outer
        log_cell = 3.0 * math.log(outer.spacing) + math.log((radius - math.sin(radius)) / math.pi)
        terms = [
            where.new_full((len(where),), math.log(self.uniform_share) - self.target.log_volume)
        ]
        for index, share in enumerate(self.shares.tolist()):
            cells = outer.cells_of(where + rotation @ self.grid.offsets[index])
            near = self._log_rotations(index, cells.clamp_min(0))
            near = near.masked_fill_(outside, -math.inf).logsumexp(1)
            row = self.log_rows[index][cells.clamp_min(0)].masked_fill(cells < 0, -math.inf)
            terms.append(math.log((1.0 - self.uniform_share) * share) + row + near - log_cell)
        return torch.stack(terms).logsumexp(0)


def ball_radius(volume: float) -> float:
    """The radius ρ of a ball of rotations with (ρ - sin ρ)/π = `volume`, at most one."""
    low, high = 0.0, math.pi
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if (middle - math.sin(middle)) / math.pi < volume:
            low = middle
        else:
            high = middle
    return high


def ball_rotations(
    radius: float, count: int, generator: torch.Generator
) -> Float[Tensor, "count 3 3"]:
    """Rotations of angle at most `radius`, uniform with respect to the Haar measure, float64.

    The angle is ρ u^(1/3) thinned by (sin(ω/2) / (ω/2))², the ratio of the volume elements of
    rotations and of rotation vectors.
    """
    kept: list[Tensor] = []
    found = 0
    while found < count:
        uniform = torch.rand(2, 2 * count, generator=generator, dtype=torch.float64)
        angle = radius * uniform[0].pow(1.0 / 3.0)
        angle = angle[uniform[1] < torch.sinc(angle / (2.0 * math.pi)).square()]
        kept.append(angle)
        found += len(angle)
    angle = torch.cat(kept)[:count]
    axis = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    axis = axis / axis.square().sum(-1, keepdim=True).sqrt()
    return rotation_exp(axis * angle[:, None])
