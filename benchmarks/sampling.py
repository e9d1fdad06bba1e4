"""How fast samplers find the best poses: exhaustive search against the paper's schedule.

Both run on the same energy in the same run, on one thread, with 100 poses asked for. The ratio is
the time of the paper's 1000 + 300 + 100 steps over the median time of six exhaustive searches; it
counts only if the best energy of all six is equal or lower.

    python benchmarks/sampling.py                  # untrained models on the project's own sample
    python benchmarks/sampling.py --demos out/mug  # on the first demonstration of a folder
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from handful.clouds import Box, PointCloud
from handful.demos import DemoSet, load_demos, make_sample
from handful.geometry import haar_rotations, pose_from_rotation_translation
from handful.models import (
    EdfModel,
    GraspQueryConfig,
    LearnedQueryConfig,
    MatchEnergy,
    ModelConfig,
    PoseEnergy,
    QueryPoints,
)
from handful.nn import Types
from handful.sampling import (
    Descent,
    ExhaustiveSampler,
    ExhaustiveSearch,
    Langevin,
    MetropolisHastings,
    PaperSchedule,
    PoseSamples,
    Sampler,
    mode_coverage,
)

WORKSPACE = Box((-0.2, -0.2, 0.0), (0.2, 0.2, 0.3))
TYPES = Types((4, 4, 2))
CHAINS = 100
REPEATS = 3
TOLERANCE = 1e-4  # About the rounding of float32 in an energy of 20.
PAPER = "paper, 1000 + 300 + 100"
MODE_ANGLE, MODE_DISTANCE = 0.3, 0.02


@dataclass(frozen=True)
class Bumps:
    """A field of Gaussian bumps [bumps, 3] with descriptors [bumps, dim]."""

    centres: Tensor
    descriptors: Tensor
    width: float

    def __call__(self, positions: Tensor) -> Tensor:
        """Descriptors [n, dim] at positions [n, 3]."""
        square = torch.cdist(positions, self.centres).square()
        return torch.exp(-0.5 * square / self.width**2) @ self.descriptors


@dataclass(frozen=True)
class FourierFeatures:
    """A smooth random field: random waves [waves, 3] mixed into descriptors [waves, dim]."""

    waves: Tensor
    phases: Tensor
    mixing: Tensor

    def __call__(self, positions: Tensor) -> Tensor:
        """Descriptors [n, dim] at positions [n, 3]."""
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
    poses = pose_from_rotation_translation(rotation, site - rotation @ points.center)
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


def untrained(demos: DemoSet) -> dict[str, tuple[MatchEnergy, Box]]:
    """Energies of an untrained model of each step in its scene, and the scenes' workspaces."""
    torch.manual_seed(0)
    x, y, z = demos.gripper.T_gripper_contact[:3, 3].tolist()
    of_contact = ModelConfig(learned=LearnedQueryConfig(((x, y, z),)))
    of_grasp = ModelConfig(grasp=GraspQueryConfig())
    found = {}
    with torch.no_grad():
        for step in demos[0].steps:
            holding = step.action.holding
            config = of_grasp if holding else of_contact
            model = EdfModel(config).eval()
            energy = model(step.scene, step.grasp if holding else None)
            found[f"untrained model of step {step.name!r}"] = (energy, around(step.scene))
    return found


def around(scene: PointCloud) -> Box:
    """The scene's bounds and 3 cm more on every side."""
    (x, y, z), (right, back, top) = (
        (b + s).tolist() for b, s in zip(scene.bounds, (-0.03, 0.03), strict=True)
    )
    return Box((x, y, z), (right, back, top))


def compare(
    name: str, energy: PoseEnergy, modes: Tensor | None, workspace: Box = WORKSPACE
) -> float:
    """Print a table; return the paper's time over the exhaustive search's, or zero if worse."""
    print(f"\n{name}")
    print(f"  {'sampler':<28} {'seconds':>8} {'best energy':>12} {'modes':>6} {'energies':>9}  ESS")
    samplers: dict[str, Sampler] = {
        PAPER: PaperSchedule(),
        "Metropolis-Hastings, 1000": MetropolisHastings(),
        "Langevin, 300, adjusted": Langevin(metropolis_adjusted=True),
        "descent, 100": Descent(),
        "exhaustive search, 0.5 s": ExhaustiveSearch(time_budget=0.5),
        "exhaustive sampler": ExhaustiveSampler(spacing=0.025),
    }
    # Half of the searches before the paper's schedule and half after it: the machine may be busy.
    ours = ExhaustiveSearch()
    runs = [timed(ours, energy, seed, workspace) for seed in range(REPEATS)]
    paper, best = 0.0, math.inf
    for label, sampler in samplers.items():
        seconds, found = timed(sampler, energy, 0, workspace)
        show(label, seconds, found, modes)
        if label == PAPER:
            paper, best = seconds, float(found.energies[0])
            runs += [timed(ours, energy, REPEATS + k, workspace) for k in range(REPEATS)]
    for seconds, found in runs:
        show("exhaustive search", seconds, found, modes)
    reached = sum(float(found.energies[0]) <= best + TOLERANCE for _, found in runs)
    ratio = paper / statistics.median(seconds for seconds, _ in runs)
    print(f"  ratio of times {ratio:.1f} x; best energy reached in {reached} of {len(runs)} runs")
    return ratio if reached == len(runs) else 0.0


def timed(
    sampler: Sampler, energy: PoseEnergy, seed: int, workspace: Box = WORKSPACE
) -> tuple[float, PoseSamples]:
    """Seconds of processor time, which other work on the machine does not change, and the poses."""
    start = time.process_time()
    found = sampler.sample(energy, workspace, CHAINS, torch.Generator().manual_seed(seed))
    return time.process_time() - start, found


def show(label: str, seconds: float, found: PoseSamples, modes: Tensor | None) -> None:
    """Print a row of the table."""
    covered = "-" if modes is None else f"{coverage(found.poses, modes)}/{len(modes)}"
    size = found.report.effective_sample_size
    print(
        f"  {label:<28} {seconds:8.3f} {float(found.energies[0]):12.4f} {covered:>6} "
        f"{found.report.energy_evaluations:9d}  {'-' if size is None else round(size)}"
    )


def coverage(poses: Tensor, modes: Tensor) -> int:
    """How many of the known modes the poses hold."""
    return round(mode_coverage(poses, modes, MODE_ANGLE, MODE_DISTANCE) * len(modes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demos", help="a demonstration folder to take the scenes from")
    options = parser.parse_args()
    torch.set_num_threads(1)
    timed(ExhaustiveSearch(), random_field(1, seed=0), seed=0)  # To warm up.
    ratios = []
    for queries in (1, 3):
        energy, modes = hand_made(queries, 8, seed=queries)
        ratios.append(compare(f"eight modes, {queries} query points", energy, modes))
        energy = random_field(queries, seed=7)
        ratios.append(compare(f"random field, {queries} query points", energy, None))
    demos = load_demos(options.demos) if options.demos else make_sample(1)
    for name, (model_energy, workspace) in untrained(demos).items():
        ratios.append(compare(name, model_energy, None, workspace))
    print("\nratios of times (0 where a search missed the paper's energy): "
          + ", ".join(f"{ratio:.1f}" for ratio in ratios))  # fmt: skip


if __name__ == "__main__":
    main()
