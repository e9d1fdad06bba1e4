"""Success of the oracles, with Wilson 95 % intervals, and the reasons of all failures.

A reset throws away layouts that do not come to rest as meant or that the oracle finds no way to
solve, so these are rates given solvability: how many were thrown away, and why, is printed too.

.venv/bin/python benchmarks/sim_oracle.py --first-seed 1000 --stills out/failures
.venv/bin/python benchmarks/sim_oracle.py --task mug --setup all --variant mixed --episodes 100
.venv/bin/python benchmarks/sim_oracle.py --task tidy --first-seed 2000 --episodes 40
.venv/bin/python benchmarks/sim_oracle.py --task mug --setup all --gripper simulated-long
.venv/bin/python benchmarks/sim_oracle.py --meshes ../shared/meshes --episodes 20
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from handful.demos import HANDS, gripper_named
from handful.sim import (
    TASKS,
    Setup,
    SimError,
    SimTask,
    Thing,
    Variant,
    film_episode,
    load_things,
    run_oracle,
)


@dataclass
class Cell:
    """What happened in the episodes of one task and setup."""

    done: int = 0
    failures: list[str] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    longest: float = 0.0
    seconds: float = 0.0

    @property
    def rate(self) -> str:
        """Successes, episodes and the interval."""
        good = self.done - len(self.failures)
        low, high = wilson(good, self.done) if self.done else (0.0, 1.0)
        return f"{good}/{self.done} [{low:.3f}, {high:.3f}]"

    @property
    def thrown_away(self) -> str:
        """Layouts that were thrown away, of all that were tried."""
        count = self.rejected.total()
        return f"{count} of {count + self.done}"


def wilson(successes: int, count: int) -> tuple[float, float]:
    """The Wilson score interval at 95 %."""
    z, share = 1.96, successes / count
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return max(0.0, middle - half), min(1.0, middle + half)


def run(
    task: SimTask,
    setup: Setup,
    seeds: Sequence[int],
    options: argparse.Namespace,
    things: list[Thing] | None = None,
) -> Cell:
    cell, variant = Cell(), Variant(options.variant)
    hand = gripper_named(options.gripper)
    for seed in seeds:
        here = task.with_other_target(seed) if options.other_targets else task
        start = time.perf_counter()
        try:
            with here.reset(seed, setup, things=things, gripper=hand) as episode:
                cell.rejected.update(episode.rejected)
                verdict = run_oracle(episode, variant)
        except SimError as error:
            cell.failures.append(f"seed {seed}: no layout: {error}")
            cell.done += 1
            continue
        took = time.perf_counter() - start
        cell.done, cell.seconds = cell.done + 1, cell.seconds + took
        cell.longest = max(cell.longest, took)
        if not verdict:
            cell.failures.append(f"seed {seed}: {verdict.reason}")
            if options.stills:
                still(here, seed, setup, options, things)
    return cell


def still(
    task: SimTask,
    seed: int,
    setup: Setup,
    options: argparse.Namespace,
    things: list[Thing] | None,
) -> None:
    """The same episode again, filmed."""
    hand = gripper_named(options.gripper)
    with task.reset(seed, setup, things=things, gripper=hand) as episode:
        _, film = film_episode(episode, Variant(options.variant))
        name = "_".join(episode.things).replace(" ", "_")
    options.stills.mkdir(parents=True, exist_ok=True)
    film.sheet().save(options.stills / f"{task.name}_{setup.value}_{seed}_{name}.png")


def tell(label: str, cell: Cell) -> None:
    print(
        f"| {label} | {cell.rate} | {cell.thrown_away} | {cell.seconds / max(cell.done, 1):.2f} s, "
        f"longest {cell.longest:.2f} s |",
        flush=True,
    )
    for reason, count in cell.rejected.most_common():
        print(f"    thrown away, {count}: {reason}", flush=True)
    for reason in cell.failures:
        print(f"    failed, {reason}", flush=True)


def try_meshes(task: SimTask, folder: Path, options: argparse.Namespace) -> None:
    """Half of the episodes with the object standing, half with it lying."""
    things, refused = load_things(folder, task.name)
    for one in refused:
        print(f"| {task.name} | refused: {one.reason} |", flush=True)
    half = options.episodes // 2
    first = options.first_seed
    for thing in things:
        label = f"{task.name} {thing.name} ({len(thing.parts)} pieces)"
        up = run(task, Setup.TRAINED, range(first, first + half), options, [thing])
        tell(f"{label}, standing", up)
        left = range(first, first + options.episodes - half)
        tell(f"{label}, lying", run(task, Setup.POSES, left, options, [thing]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", choices=sorted(TASKS), action="append")
    parser.add_argument("--setup", choices=[setup.value for setup in Setup], action="append")
    parser.add_argument("--variant", choices=[one.value for one in Variant], default="default")
    parser.add_argument("--gripper", choices=sorted(HANDS), default="simulated")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--objects", type=Path, help="a folder of meshes, for one task")
    parser.add_argument("--meshes", type=Path, help="a folder with one of meshes for each task")
    parser.add_argument("--other-targets", action="store_true", help="a new hanger or tray each")
    parser.add_argument("--stills", type=Path, help="a folder for pictures of failed episodes")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.episodes)
    for name in options.task or sorted(TASKS):
        if options.objects or options.meshes:
            if len(TASKS[name].parts) > 1:
                continue  # its objects are tried in the tasks of one object
            try_meshes(TASKS[name], options.objects or options.meshes / name, options)
            continue
        for setup in options.setup or [setup.value for setup in Setup]:
            tell(f"{name}, {setup}", run(TASKS[name], Setup(setup), seeds, options))


if __name__ == "__main__":
    main()
