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

from ._components import Component, Joint, Marginal
from ._diagnostics import weight_effective_sample_size
from ._grid import Keep
from ._proposal import LatticeProposal
from ._sampler import Draw, Kernel, Sampler
from ._target import EnergyError, Target, require_count, require_match_energy, require_positive
from ._volume import KeyGrid, useful_queries

CORRECTIONS = ("resample", "independence", "weights")
PROPOSALS = ("joint", "marginals")


@dataclass(frozen=True, kw_only=True)
class ExhaustiveSampler(Sampler):
    """Draws from lattice distributions, corrected with the full energy.

    The proposal Q and why the correction is exact are in `_proposal.py`. There is no burn-in. Cubes
    much wider than a mode waste draws: look at the effective sample size, and if it is small, take
    a finer lattice or more draws, or let `moves` do the rest.

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
            together; `marginals` from those of single query points, in any lattice size. For one
            query point they are the same.
        tempering: The proposal's energies are divided by it; above one it is wider.
        uniform_share: Share of the draws that are uniform, which bounds the weights.
        moves: A kernel that moves the resampled poses on, for example Metropolis-adjusted
            `Langevin`: it leaves the law as it is and tells duplicates apart.
        keep: Where the lattice looks, for example `near_points` of the scene. What is left out is
            still reached by the uniform share.
        time_budget: Seconds; if given, new lattices are drawn and their draws pooled until the
            next one would not fit.
    """

    spacing: float = 0.015
    rotations: int = 512
    draws: int = 4096
    correction: str = "resample"
    proposal: str = "joint"
    tempering: float = 1.0
    uniform_share: float = 0.05
    moves: Kernel | None = None
    keep: Keep | None = None
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
        energy = useful_queries(require_match_energy(target.energy, "ExhaustiveSampler"))
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
        grid = KeyGrid.of(target, energy, self.spacing, generator, self.keep)
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


def independence_chains(
    log_weights: Float[Tensor, "draws"], chains: int, generator: torch.Generator
) -> tuple[Tensor, float | None]:
    """Metropolis-Hastings that proposes the draws one after the other, whatever the state.

    A move to a draw is accepted with min(1, w'/w). The draws are dealt out to the chains in turn,
    the first of each being where it starts.

    Returns:
        Index of the draw that every chain ends at [chains], and the acceptance rate (None if there
        are no more draws than chains).
    """
    steps = len(log_weights) // chains
    table = torch.arange(steps * chains).unflatten(0, (steps, chains))
    state, accepted = table[0], 0
    for proposed in table[1:]:
        uniform = torch.rand(chains, generator=generator, dtype=log_weights.dtype)
        accept = uniform.log() < log_weights[proposed] - log_weights[state]
        # A start of weight zero is left at once: its ratio is infinite, or NaN against another.
        state = torch.where(accept, proposed, state)
        accepted += int(accept.sum())
    return state, accepted / ((steps - 1) * chains) if steps > 1 else None
