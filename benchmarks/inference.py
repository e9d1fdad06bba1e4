"""How long a trained model looks for poses, and the paper's schedule with the same model.

    python benchmarks/inference.py --run runs/mug --demos out/mug --scenes 3

The schedule is 1000 steps of Metropolis-Hastings, 300 of Langevin and 100 without noise, 100 chains
at once. Both get the same clouds, and each time includes encoding them.
"""

from __future__ import annotations

import argparse
import os
import resource
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from handful.demos import load_demos
from handful.learning import load_model
from handful.sampling import PaperSchedule


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    demos = load_demos(options.demos)
    for kind in ("pick", "place"):
        if not (options.run / kind).is_dir():
            continue
        model = load_model(options.run / kind)
        ours, theirs, reached = [], [], 0
        for index in range(options.scenes):
            step = demos[index % len(demos)].step(kind)
            clouds = (step.scene,) if kind == "pick" else (step.scene, step.grasp)
            model.sample(*clouds, n=100)  # warm-up
            fast = model.sample(*clouds, n=100, seed=index)
            slow = model.sample(*clouds, n=100, seed=index, sampler=PaperSchedule())
            ours.append(fast.seconds)
            theirs.append(slow.seconds)
            reached += bool(fast.energy[0] <= slow.energy[0] + 1e-3)
            print(
                f"{kind} {index}: exhaustive {fast.seconds:.2f} s, energy {fast.energy[0]:.3f} "
                f"({len(fast)} poses); paper's schedule {slow.seconds:.1f} s, energy "
                f"{slow.energy[0]:.3f}",
                flush=True,
            )
        ratio = np.median(np.array(theirs) / np.array(ours))
        print(
            f"{kind}: median {np.median(ours):.2f} s, longest {max(ours):.2f} s; {ratio:.0f} times "
            f"faster than the paper's schedule; energy as low or lower in {reached} of "
            f"{len(ours)}\n",
            flush=True,
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{options.threads} threads, peak memory {peak:.2f} GiB")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True, help="a run of `handful train`")
    parser.add_argument("--demos", type=Path, required=True, help="where scenes come from")
    parser.add_argument("--scenes", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
