"""How fast samplers find the best poses: exhaustive search against the paper's schedule.

Both run on the same energy in the same run, on one thread, with 100 poses asked for. The ratio is
the time of the paper's 1000 + 300 + 100 steps over the time of the exhaustive search, which counts
only if its best energy is equal or lower. Run with `python benchmarks/sampling.py`; with
`--model FOLDER` it will also sample a trained model's energy.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from handful.clouds import Box
from handful.geometry import haar_rotations, pose_from_rotation_translation
from handful.models import MatchEnergy, PoseEnergy, QueryPoints
from handful.nn import Types
from handful.sampling import (
    Descent,
    ExhaustiveSampler,
    ExhaustiveSearch,
    Langevin,
    MetropolisHastings,
    PaperSchedule,
    Sampler,
    mode_coverage,
)

WORKSPACE = Box((-0.2, -0.2, 0.0), (0.2, 0.2, 0.3))
TYPES = Types((4, 4, 2))
CHAINS = 100
TOLERANCE = 1e-3
MODE_ANGLE, MODE_DISTANCE = 0.3, 0.02


@dataclass(frozen=True)
class Bumps:
    """A field of Gaussian bumps [bumps, 3] with descriptors [bumps, dim]."""

    centres: Tensor
    descriptors: Tensor
    width: float

    def __call__(self, positions: Tensor) -> Tensor:
        square = torch.cdist(positions, self.centres).square()
        return torch.exp(-0.5 * square / self.width**2) @ self.descriptors


@dataclass(frozen=True)
class FourierFeatures:
    """A smooth random field: random waves [waves, 3] mixed into descriptors [waves, dim]."""

    waves: Tensor
    phases: Tensor
    mixing: Tensor

    def __call__(self, positions: Tensor) -> Tensor:
        return torch.cos(positions @ self.waves.mT + self.phases) @ self.mixing


def gripper_queries(count: int, generator: torch.Generator) -> QueryPoints:
    """Query points 10 cm in front of the gripper, 3 cm apart, weights that sum to one."""
    places = torch.tensor([[0.0, 0.0, 0.1], [0.03, 0.0, 0.1], [0.0, 0.02, 0.08]])[:count]
    weights = torch.tensor([0.5, 0.3, 0.2])[:count]
    descriptors = torch.randn(count, TYPES.dim, generator=generator)
    descriptors = descriptors / descriptors.square().sum(-1, keepdim=True).sqrt()
    return QueryPoints(places, weights / weights.sum(), descriptors)


def hand_made(queries: int, modes: int, seed: int) -> tuple[MatchEnergy, Tensor]:
    """An energy with known modes: bumps where, and turned as, the query points match in them."""
    generator = torch.Generator().manual_seed(seed)
    points = gripper_queries(queries, generator)
    rotation = haar_rotations(modes, generator=generator)
    site = sites(modes, generator)
    reference = (points.weights[:, None] * points.positions).sum(0)
    poses = pose_from_rotation_translation(rotation, site - rotation @ reference)
    where = points.positions @ rotation.mT + poses[:, None, :3, 3]
    strength = torch.linspace(1.0, 0.85, modes)[:, None, None]
    bumps = strength * TYPES.rotated(points.descriptors, rotation[:, None])
    field = Bumps(where.flatten(0, 1), bumps.flatten(0, 1), 0.015)
    return MatchEnergy(field, points, TYPES, temperature=0.04), poses


def sites(count: int, generator: torch.Generator) -> Tensor:
    """Places in the workspace at least 9 cm from each other and 2 cm from its faces."""
    lower = torch.tensor(WORKSPACE.lower) + 0.02
    upper = torch.tensor(WORKSPACE.upper) - 0.02
    found: list[Tensor] = []
    while len(found) < count:
        place = lower + (upper - lower) * torch.rand(3, generator=generator)
        if all(float((place - other).norm()) > 0.09 for other in found):
            found.append(place)
    return torch.stack(found)


def random_field(queries: int, seed: int) -> MatchEnergy:
    """A stand-in for an untrained model: random smooth keys, random queries."""
    generator = torch.Generator().manual_seed(seed)
    points = gripper_queries(queries, generator)
    waves = torch.randn(256, 3, generator=generator) / 0.03
    phases = 2.0 * math.pi * torch.rand(256, generator=generator)
    mixing = torch.randn(256, TYPES.dim, generator=generator) / math.sqrt(128 * TYPES.dim)
    return MatchEnergy(FourierFeatures(waves, phases, mixing), points, TYPES, temperature=0.04)


def compare(name: str, energy: PoseEnergy, modes: Tensor | None) -> float:
    """Print a table; return paper's time over the exhaustive search's at equal or better energy."""
    print(f"\n{name}")
    print(f"  {'sampler':<34} {'seconds':>9} {'best energy':>12} {'modes':>8} {'evaluations':>12}")
    adjusted = Langevin(steps=300, metropolis_adjusted=True)
    samplers: dict[str, Sampler] = {
        "paper, 1000 + 300 + 100": PaperSchedule(),
        "Metropolis-Hastings, 1000": MetropolisHastings(),
        "Langevin, 300, adjusted": adjusted,
        "descent, 100": Descent(),
        "exhaustive search": ExhaustiveSearch(),
        "exhaustive search, 0.5 s": ExhaustiveSearch(time_budget=0.5),
        "exhaustive sampler": ExhaustiveSampler(),
    }
    times, best = {}, {}
    for label, sampler in samplers.items():
        start = time.perf_counter()
        found = sampler.sample(energy, WORKSPACE, CHAINS, torch.Generator().manual_seed(0))
        times[label], best[label] = time.perf_counter() - start, float(found.energies[0])
        covered = "-" if modes is None else f"{coverage(found.poses, modes)}/{len(modes)}"
        print(
            f"  {label:<34} {times[label]:9.3f} {best[label]:12.4f} {covered:>8} "
            f"{found.report.energy_evaluations:12d}"
        )
    paper, ours = "paper, 1000 + 300 + 100", "exhaustive search"
    ratio = times[paper] / times[ours]
    reached = best[ours] <= best[paper] + TOLERANCE
    print(f"  ratio of times {ratio:.1f} x; best energy {'reached' if reached else 'NOT REACHED'}")
    return ratio if reached else 0.0


def coverage(poses: Tensor, modes: Tensor) -> int:
    """How many of the known modes the poses hold."""
    return round(mode_coverage(poses, modes, MODE_ANGLE, MODE_DISTANCE) * len(modes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="folder of a trained model (not yet)")
    options = parser.parse_args()
    if options.model is not None:
        parser.error("--model is not supported yet: there are no models to load")
    torch.set_num_threads(1)
    torch.randn(64, 64) @ torch.randn(64, 64)
    ratios = []
    for queries in (1, 3):
        energy, modes = hand_made(queries, 8, seed=queries)
        ratios.append(compare(f"eight modes, {queries} query points", energy, modes))
        ratios.append(compare(f"random field, {queries} query points", random_field(queries, 7), None))
    print(f"\nsmallest ratio of times at equal or better energy: {min(ratios):.1f} x")


if __name__ == "__main__":
    main()
