"""Samples of a `MatchEnergy` from lattice distributions, corrected to be exact."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from handful.errors import OptionError, unknown_name_message
from handful.geometry import rotation_lattice
from handful.models import MatchEnergy
from handful.sampling._sampler import Draw, Kernel, Sampler
from handful.sampling._target import (
    EnergyError,
    Target,
    require_count,
    require_positive,
    useful_match_energy,
)

from ._components import Component, Joint, Marginal
from ._correction import independence_chains, weight_effective_sample_size
from ._dense_lattice import KeyGrid
from ._grid import PositionMask
from ._proposal import LatticeProposal

CORRECTIONS = ("resample", "independence", "weights")
PROPOSALS = ("joint", "marginals")


@dataclass(frozen=True, kw_only=True)
class ExhaustiveSampler(Sampler):
    """Draws from lattice distributions, corrected with the full energy.

    The docstring of `_proposal.py` gives the proposal Q and says why the correction is exact. There
    is no burn-in. Cubes much wider than a mode waste draws, and the effective sample size in the
    report is then small: take a finer lattice, more draws, or a kernel in `moves`.

    Attributes:
        spacing: Side of the cubes of positions, metres.
        rotations: Number of lattice rotations.
        draws: Draws from the proposal for each lattice; `count` if that is more.
        correction: `resample` draws `count` poses by their weights, with replacement (exact as
            `draws` grows; keep `count` well below the effective sample size); `independence` runs
            `count` chains with the draws as independence proposals of Metropolis-Hastings,
            draws / count steps each; `weights` returns all draws inside the workspace with their
            log weights, whatever `count` is.
        proposal: `joint` draws from the interpolated lattice distribution of all query points
            together, which must fit in memory; `marginals` draws from those of single query points
            and works for any size of lattice. For one query point the two are equal.
        tempering: Divides the energies of the proposal. Above one, the proposal is wider than the
            target.
        uniform_share: Share of the draws that are uniform, which bounds the weights.
        moves: A kernel that moves the resampled poses on, for example Metropolis-adjusted
            `Langevin`, which leaves the law as it is and moves duplicates apart.
        mask: Which positions of query points the lattice holds, for example `near_points` of the
            scene; all by default. The uniform share still reaches the other positions.
        time_budget: Seconds. If given, new lattices are drawn and their draws are pooled until the
            next lattice would not fit into the budget.
    """

    spacing: float = 0.015
    rotations: int = 512
    draws: int = 4096
    correction: str = "resample"
    proposal: str = "joint"
    tempering: float = 1.0
    uniform_share: float = 0.05
    moves: Kernel | None = None
    mask: PositionMask | None = None
    time_budget: float | None = None

    def __post_init__(self) -> None:
        require_positive(spacing=self.spacing, tempering=self.tempering)
        require_count(rotations=self.rotations, draws=self.draws)
        if self.correction not in CORRECTIONS:
            raise OptionError(unknown_name_message("correction", self.correction, CORRECTIONS))
        if self.proposal not in PROPOSALS:
            raise OptionError(unknown_name_message("proposal", self.proposal, PROPOSALS))
        if not 0.0 < self.uniform_share < 1.0:
            raise OptionError(
                f"uniform_share is {self.uniform_share}: need more than 0, so that no pose has "
                "density zero, and less than 1."
            )
        if self.moves is not None and self.correction == "weights":
            raise OptionError("weighted draws cannot be moved: drop `moves`, or resample.")
        if self.time_budget is not None:
            require_positive(time_budget=self.time_budget)

    def draw(self, target: Target, count: int, generator: torch.Generator) -> Draw:
        """Draw, weigh, and correct."""
        energy = useful_match_energy(target.energy, "ExhaustiveSampler")
        number = max(self.draws, count)
        deadline = time.perf_counter() + (self.time_budget or 0.0)
        rounds: list[tuple[Tensor, Tensor, Tensor]] = []
        took = 0.0
        while not rounds or time.perf_counter() + took < deadline:
            start = time.perf_counter()
            rounds.append(self._weighted(target, energy, number, generator))
            took = time.perf_counter() - start
        centred, energies, log_weights = (torch.cat(parts) for parts in zip(*rounds, strict=True))
        if not bool((log_weights > -math.inf).any()):
            raise EnergyError(
                f"none of {len(energies)} draws has any weight: is the energy infinite all over "
                f"the workspace {target.workspace.lower}..{target.workspace.upper}?"
            )
        return self._corrected(
            target, centred, energies, log_weights, count, generator, len(rounds)
        )

    def _weighted(
        self, target: Target, energy: MatchEnergy, count: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Centred poses, energies and log weights -E - log Q from one lattice."""
        grid = KeyGrid.of(target, energy, self.spacing, generator, self.mask)
        rotations = rotation_lattice(self.rotations, generator=generator, dtype=target.dtype)
        target.lattice_poses += grid.outer.size * self.rotations
        components: list[Component]
        if self.proposal == "joint" and len(energy.queries) > 1:
            components, shares = [Joint.of(grid, rotations, self.tempering)], [1.0]
        else:
            queries, weights = range(len(energy.queries)), energy.queries.weights
            components = [Marginal.of(grid, i, rotations, self.tempering) for i in queries]
            shares = (weights / weights.sum()).tolist()
        proposal = LatticeProposal(target, rotations, components, shares, self.uniform_share)
        centred = proposal.draw(count, generator)
        energies = target.energies(centred)
        return centred, energies, -energies - proposal.log_density(centred)

    def _corrected(
        self,
        target: Target,
        centred: Float[Tensor, "draws 4 4"],
        energies: Float[Tensor, "draws"],
        log_weights: Float[Tensor, "draws"],
        count: int,
        generator: torch.Generator,
        levels: int,
    ) -> Draw:
        size = weight_effective_sample_size(log_weights)
        log_partition = float(log_weights.double().logsumexp(0)) - math.log(len(log_weights))
        if self.correction == "weights":
            inside = log_weights > -math.inf
            normal = log_weights[inside].log_softmax(0)
            return Draw(
                centred[inside], energies[inside], normal, None, size, log_partition, levels
            )
        acceptance = None
        if self.correction == "resample":
            odds = log_weights.double().softmax(0)
            chosen = odds.multinomial(count, replacement=True, generator=generator)
        else:
            chosen, acceptance = independence_chains(log_weights, count, generator)
        moved = Draw(centred[chosen], energies[chosen])
        if self.moves is not None:
            moved = self.moves.advance(target, moved.centred, generator)
        return Draw(moved.centred, moved.energies, None, acceptance, size, log_partition, levels)
