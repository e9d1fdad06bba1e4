"""How long a predictor looks for poses, against the paper's schedule and against other searches.

    python benchmarks/inference.py --run runs/mug --demos out/mug --scenes 3

For each trained step of the run's task, and for 1, 8 and 100 poses, the table shows medians of CPU
seconds and of wall-clock seconds. All times include preparing and encoding the clouds. The claims
are the ratios, which are measured in one process on the same scenes:

- the paper's schedule: 1000 steps of Metropolis-Hastings, 300 of Langevin and 100 without noise,
  100 chains at once, with the same model;
- a search that refines all of its starts to the end, whatever is asked for;
- one core against several, which share what PyTorch can share. Only idle cores tell: threads
  that wait for a busy core make this many times slower.

Scenes are those of demonstrations under random rigid motions, with a random part of the points.
They are the same in every run: `--save FILE` keeps the best energies of this code, and `--before
FILE` says in how many scenes those of this code are no worse than the ones that were kept.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from handful.clouds import PointCloud
from handful.demos import DemoSet, load_demos
from handful.learning import RunFolder
from handful.nn import keep_freed_memory
from handful.policy import CONSIDERED, Judged, Predictor
from handful.sampling import Descent, Langevin, MetropolisHastings, PaperSchedule

COUNTS = (1, 8, 100)
STARTS = 48
"""How many starts the search refines that gives up none of them, at least."""
AS_LOW = 1e-3
"""Energies that differ by less are the same."""

Clouds = tuple[PointCloud, PointCloud | None]


def main() -> None:
    options = _options()
    keep_freed_memory()
    torch.set_num_threads(1)
    demos, run = load_demos(options.demos), RunFolder(options.run)
    before = {} if options.before is None else json.loads(options.before.read_text())
    found: dict[str, list[float]] = {}
    for step in run.task:
        if run.model(step.name).is_dir():
            predictor = run.predictor(step.name)
            for count, timing in _compare(predictor, demos, options).items():
                found[f"{step.name}, {count} poses"] = timing.best
    for name, best in found.items():
        if name in before:
            _print_change(name, np.array(best), np.array(before[name]))
    if options.save is not None:
        options.save.write_text(json.dumps(found))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GiB")


@dataclass
class Timing:
    """Times and best energies of one way to look for poses, one entry for each scene."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)

    def add(self, best_energy: Callable[[], float]) -> None:
        """Measure one answer."""
        cpu, wall = time.process_time(), time.perf_counter()
        self.best.append(best_energy())
        self.cpu.append(time.process_time() - cpu)
        self.wall.append(time.perf_counter() - wall)

    def against(self, other: Timing) -> str:
        """How many times as long another way takes on the same scenes, and whose energy is low."""
        ratio = np.median(np.array(other.cpu) / np.array(self.cpu))
        gap = np.array(self.best) - np.array(other.best)
        return (
            f"{ratio:6.1f} times the CPU time; our best energy is as low or lower in "
            f"{int((gap <= AS_LOW).sum())} of {len(gap)}, the worst gap is {gap.max():.4f}"
        )


def _print_change(name: str, best: np.ndarray, before: np.ndarray) -> None:
    """In how many scenes the best energy is no worse than another version of the code found."""
    scenes = min(len(best), len(before))
    gap = best[:scenes] - before[:scenes]
    print(
        f"{name}: no worse than before in {int((gap <= AS_LOW).sum())} of {scenes} scenes, better "
        f"in {int((gap < -AS_LOW).sum())}; the worst gap is {gap.max():.4f}"
    )


def _compare(
    predictor: Predictor, demos: DemoSet, options: argparse.Namespace
) -> dict[int, Timing]:
    """Measure all ways to look for poses on some scenes, and print them and their ratios."""
    name, schedule = predictor.step.name, _schedule(options.shorten)
    ours = {count: Timing() for count in COUNTS}
    everything = {count: Timing() for count in COUNTS}
    several, paper = {count: Timing() for count in COUNTS}, Timing()

    def sampled(clouds: Clouds, count: int, seed: int) -> float:
        return float(predictor.sample(*clouds, n=count, seed=seed).energy[0])

    def of_paper(clouds: Clouds, seed: int) -> float:
        return float(predictor.sample(*clouds, n=100, seed=seed, sampler=schedule).energy[0])

    for index, clouds in enumerate(_scenes(predictor, demos, options.scenes)):
        if index == 0:
            sampled(clouds, 8, 0)  # warm-up
        for count in COUNTS:
            ours[count].add(lambda: sampled(clouds, count, index))  # noqa: B023
            if not options.brief:
                everything[count].add(lambda: _all_refined(predictor, clouds, count, index))  # noqa: B023
            if options.cores > 1 and not options.brief:
                torch.set_num_threads(options.cores)
                several[count].add(lambda: sampled(clouds, count, index))  # noqa: B023
                torch.set_num_threads(1)
        if index < options.schedules:
            paper.add(lambda: of_paper(clouds, index))  # noqa: B023
    for count, mine in ours.items():
        print(
            f"{name}, {count:3d} poses: median {np.median(mine.cpu):.3f} CPU s, "
            f"{np.median(mine.wall):.3f} s"
        )
        if options.cores > 1 and not options.brief:
            other = several[count]
            faster = np.median(np.array(mine.wall) / np.array(other.wall))
            print(
                f"    {options.cores} cores: {np.median(other.cpu):.3f} CPU s, "
                f"{np.median(other.wall):.3f} s, {faster:.2f} times as fast"
            )
        if not options.brief:
            print(f"    all starts refined to the end: {mine.against(everything[count])}")
        if paper.cpu:
            some = slice(len(paper.cpu))
            few = Timing(mine.cpu[some], mine.wall[some], mine.best[some])
            part = "" if options.shorten == 1 else f"1/{options.shorten} of "
            print(f"    {part}the paper's schedule: {few.against(paper)}")
    print(flush=True)
    return ours


def _all_refined(predictor: Predictor, clouds: Clouds, count: int, seed: int) -> float:
    """The best energy of a search that gives up none of its starts."""
    view = predictor.look(*clouds)
    energy = view.energy(0)
    search, workspace = predictor.search.sampler(energy), predictor.search.workspace(energy)
    generator = torch.Generator().manual_seed(seed)
    starts, _ = search.candidates(energy, workspace, max(count, STARTS), generator)
    poses, energies = search.refined(energy, workspace, starts)
    best = search.distinct(poses, energies, max(count, CONSIDERED))
    judged = Judged.of(energy, predictor.model.verifier, poses[best], energies[best])
    return float(judged.energies.min())


def _scenes(predictor: Predictor, demos: DemoSet, count: int) -> Iterator[Clouds]:
    """Demonstrated scenes under random motions, with a random part of their points."""
    for index in range(count):
        rng = np.random.default_rng(1000 + index)
        step = demos[index % len(demos)].step(predictor.step.name)
        motion = np.eye(4)
        motion[:3, :3] = Rotation.random(rng=rng).as_matrix()
        motion[:3, 3] = rng.uniform(-0.3, 0.3, 3)
        scene = _thinned(step.scene, rng).transformed(motion)
        held = step.grasp if predictor.step.action.holding else None
        yield scene, None if held is None else _thinned(held, rng)


def _thinned(cloud: PointCloud, rng: np.random.Generator) -> PointCloud:
    return cloud.selected(rng.random(len(cloud)) < rng.uniform(0.7, 1.0))


def _schedule(shorten: int) -> PaperSchedule:
    """The paper's schedule, or one with `shorten` times fewer steps, to try the benchmark out."""
    if shorten == 1:
        return PaperSchedule()
    return PaperSchedule(
        metropolis=MetropolisHastings(steps=1000 // shorten),
        langevin=Langevin(steps=300 // shorten),
        descent=Descent(steps=100 // shorten),
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True, help="a run of `handful train`")
    parser.add_argument("--demos", type=Path, required=True, help="where scenes come from")
    parser.add_argument("--scenes", type=int, default=3)
    parser.add_argument(
        "--schedules", type=int, default=3, help="scenes that the paper's schedule searches too"
    )
    parser.add_argument("--cores", type=int, default=2, help="compared with one; 1 for no more")
    parser.add_argument("--shorten", type=int, default=1, help="divide the schedule's steps by it")
    parser.add_argument("--brief", action="store_true", help="neither other searches nor cores")
    parser.add_argument("--save", type=Path, help="keep the best energies in this JSON file")
    parser.add_argument("--before", type=Path, help="compare with energies that were kept there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
