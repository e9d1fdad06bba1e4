"""A proposal density on poses, made of lattice distributions.

Query point i alone has the lattice distribution p_i(cell, k) ∝ exp(-β E_i(x_cell, R_k)), exact and
from one matrix product (`Marginal`). The proposal draws i with probability w_i / Σw, a cell and a
rotation from p_i, then x_i uniformly in the cube of the cell and R uniformly in a ball of radius ρ
around R_k, and sets v = x_i - R q_i. With a uniform share α against zeros, its density is

    Q(T) = (1 - α) Σ_i (w_i / Σw) Σ_k p_i(cell(T q_i), k) · 1[angle(R_k, R) < ρ] / (s³ V(ρ))
           + α / |workspace|

with respect to dR d³v, where s is the side of a cube and V(ρ) = (ρ - sin ρ)/π the volume of the
ball. Cubes tile space, so the sum over cells has one term. The distribution of all query points
together (`Joint`) can take the place of the p_i. It is interpolated, which changes Q and not the
target.

Q is a normalised density that can be evaluated at every pose, and Q is positive wherever the
target is. Averages over draws with the weights exp(-E)/Q, where E is the full energy, therefore
converge to those of the target as the number of draws grows, whatever the lattice. An independence
chain with these proposals has the target as its stationary law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from handful.geometry import (
    pose_from_rotation_translation,
    rotation_exp,
    rotation_to_quat,
)
from handful.sampling._target import Target

from ._components import Component
from ._lattice_energies import rows_at_once

_BALL_SHARE = 6.0  # Lattice rotations in a ball, on average: balls then overlap and leave no gap.
_BISECTIONS = 60


@dataclass(frozen=True, eq=False)
class LatticeProposal:
    """The density Q of this module's docstring, to draw from and to evaluate.

    Attributes:
        target: What is sampled in the end.
        rotations: R_k [rotations, 3, 3].
        components: The lattice distributions.
        shares: Probability of each component; the shares sum to one.
        uniform_share: α.
    """

    target: Target
    rotations: Float[Tensor, "rotations 3 3"]
    components: list[Component]
    shares: list[float]
    uniform_share: float

    @property
    def radius(self) -> float:
        """ρ, radians."""
        return ball_radius(min(1.0, _BALL_SHARE / len(self.rotations)))

    def draw(self, count: int, generator: torch.Generator) -> Float[Tensor, "draws 4 4"]:
        """Centred poses from Q; some may be outside of the workspace."""
        odds = [(1.0 - self.uniform_share) * share for share in self.shares]
        odds.append(self.uniform_share)
        which = torch.tensor(odds, dtype=torch.float64).multinomial(
            count, replacement=True, generator=generator
        )
        *numbers, uniform = which.bincount(minlength=len(odds)).tolist()
        parts = [self.target.uniform(uniform, generator)]
        for component, number in zip(self.components, numbers, strict=True):
            if number:
                parts.append(self._draw_from(component, number, generator))
        return torch.cat(parts)[torch.randperm(count, generator=generator)]

    def log_density(self, centred: Float[Tensor, "draws 4 4"]) -> Float[Tensor, "draws"]:
        """Log Q with respect to dR d³v, for poses inside the workspace."""
        parts = [self._log_density(chunk) for chunk in centred.split(self._rows)]
        return torch.cat(parts)

    @property
    def _rows(self) -> int:
        return rows_at_once(4 * len(self.rotations))

    def _draw_from(self, component: Component, count: int, generator: torch.Generator) -> Tensor:
        rows = component.log_rows.double().exp()
        cells = rows.multinomial(count, replacement=True, generator=generator)
        turns = torch.cat(
            [
                component.log_rotations(chunk).exp().multinomial(1, generator=generator)
                for chunk in cells.split(self._rows)
            ]
        ).squeeze(1)
        grid, dtype = component.grid, self.target.dtype
        place = torch.rand(count, 3, generator=generator, dtype=dtype) - 0.5
        where = grid.centres()[cells] + grid.spacing * place
        rotation = self.rotations[turns] @ ball_rotations(self.radius, count, generator).to(dtype)
        return pose_from_rotation_translation(rotation, where - rotation @ component.offset)

    def _log_density(self, centred: Tensor) -> Tensor:
        rotation, where = centred[:, :3, :3], centred[:, :3, 3]
        cosine = rotation_to_quat(rotation) @ rotation_to_quat(self.rotations).mT
        outside = cosine.abs() < math.cos(0.5 * self.radius)
        log_ball = math.log((self.radius - math.sin(self.radius)) / math.pi)
        uniform = math.log(self.uniform_share) - self.target.log_volume
        terms = [where.new_full((len(where),), uniform)]
        for component, share in zip(self.components, self.shares, strict=True):
            cells = component.grid.cells_of(where + rotation @ component.offset)
            near = component.log_rotations(cells.clamp_min(0))
            near = near.masked_fill(outside, -math.inf).logsumexp(1)
            row = component.log_rows[cells.clamp_min(0)].masked_fill(cells < 0, -math.inf)
            log_cell = 3.0 * math.log(component.grid.spacing) + log_ball
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
    angles: list[Tensor] = []
    found = 0
    while found < count:
        uniform = torch.rand(2, 2 * count, generator=generator, dtype=torch.float64)
        angle = radius * uniform[0].pow(1.0 / 3.0)
        angle = angle[uniform[1] < torch.sinc(angle / (2.0 * math.pi)).square()]
        angles.append(angle)
        found += len(angle)
    angle = torch.cat(angles)[:count]
    axis = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    axis = axis / axis.square().sum(-1, keepdim=True).sqrt()
    return rotation_exp(axis * angle[:, None])
