"""How long a predictor looks for poses, and the paper's schedule with the same model.

    python benchmarks/inference.py --run runs/mug --demos out/mug --scenes 3

The schedule is 1000 steps of Metropolis-Hastings, 300 of Langevin and 100 without noise, 100 chains
at once. Both get the same clouds, and each time includes preparing and encoding them. Each step of
the run's task that was trained is measured.
"""

from __future__ import annotations

import argparse
import os
import resource
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from handful.demos import DemoSet, load_demos
from handful.learning import RunFolder
from handful.policy import Predictor
from handful.sampling import Descent, Langevin, MetropolisHastings, PaperSchedule


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    demos, run = load_demos(options.demos), RunFolder(options.run)
    for step in run.task:
        if run.model(step.name).is_dir():
            _compare(run.predictor(step.name), demos, options.shorten, options.scenes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{options.threads} threads, peak memory {peak:.2f} GiB")


def _compare(predictor: Predictor, demos: DemoSet, shorten: int, scenes: int) -> None:
    """Measure both searches on some scenes, and print them and their ratio."""
    name, schedule = predictor.step.name, _schedule(shorten)
    other = "the paper's schedule" if shorten == 1 else f"1/{shorten} of the paper's schedule"
    ours, theirs, reached = [], [], 0
    for index in range(scenes):
        step = demos[index % len(demos)].step(name)
        clouds = (step.scene, step.grasp if predictor.step.action.holding else None)
        predictor.sample(*clouds, n=100)  # warm-up
        fast = predictor.sample(*clouds, n=100, seed=index)
        slow = predictor.sample(*clouds, n=100, seed=index, sampler=schedule)
        ours.append(fast.seconds)
        theirs.append(slow.seconds)
        reached += bool(fast.energy[0] <= slow.energy[0] + 1e-3)
        print(
            f"{name} {index}: exhaustive {fast.seconds:.2f} s, energy {fast.energy[0]:.3f} "
            f"({len(fast)} poses); {other} {slow.seconds:.1f} s, energy "
            f"{slow.energy[0]:.3f}",
            flush=True,
        )
    ratio = np.median(np.array(theirs) / np.array(ours))
    print(
        f"{name}: median {np.median(ours):.2f} s, longest {max(ours):.2f} s; {other} takes "
        f"{ratio:.1f} times as long; energy as low or lower in {reached} of {len(ours)}\n",
        flush=True,
    )


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
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shorten", type=int, default=1, help="divide the schedule's steps by it")
    return parser.parse_args()


if __name__ == "__main__":
    main()
