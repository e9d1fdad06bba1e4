"""How long training takes: steps of a task side by side against one after the other.

    python benchmarks/training.py --demos out/mug --steps 40

Each step of the task is trained for a few optimiser steps, in processes of one thread: first one
after the other, then side by side (`train_side_by_side`). Prints for each step of the task the CPU
seconds of an optimiser step and of the whole recipe, and for all steps the ratio of the two wall
times, the peak of memory, and whether the two ways gave the same model to the bit.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from handful.demos import load_demos
from handful.learning import Recipe, recipe_for, train_side_by_side

LOAD = 2
"""Training is measured with this number of steps as well, to take off what starting costs."""


def main() -> None:
    options = _options()
    demos = load_demos(options.demos)
    names = demos.task.names
    recipes = [recipe_for(demos, name) for name in names]
    with tempfile.TemporaryDirectory() as folder:

        def run(some: list[Recipe], steps: int, workers: int, name: str) -> tuple[float, float]:
            """Wall and CPU seconds of training."""
            shortened = [replace(r, training=replace(r.training, steps=steps)) for r in some]
            wall, cpu = time.perf_counter(), _children_seconds()
            train_side_by_side(demos, shortened, Path(folder) / name, workers=workers)
            return time.perf_counter() - wall, _children_seconds() - cpu

        total = 0.0
        for recipe in recipes:
            name = recipe.step.name
            _, start = run([recipe], LOAD, 1, f"start {name}")
            _, cpu = run([recipe], LOAD + options.steps, 1, f"alone {name}")
            step = (cpu - start) / options.steps
            whole = start + step * recipe.training.steps
            total += whole
            print(
                f"{name}: {step:.3f} CPU-s an optimiser step; {recipe.training.steps} steps, start "
                f"and calibration {whole:.0f} CPU-s",
                flush=True,
            )
        alone, _ = run(recipes, LOAD + options.steps, 1, "one after the other")
        beside, _ = run(recipes, LOAD + options.steps, len(recipes), "side by side")
        same = all(
            _weights(Path(folder) / "side by side" / name)
            == _weights(Path(folder) / "one after the other" / name)
            for name in names
        )
    verdict = "the same models" if same else "NOT the same models"
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(
        f"all steps: {total / 60:.1f} CPU-minutes; side by side {alone / beside:.2f} times as fast "
        f"as one after the other on {os.cpu_count()} cores; {verdict} "
        f"to the bit; largest process {peak:.2f} GiB"
    )


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _weights(folder: Path) -> bytes:
    return (folder / "weights.safetensors").read_bytes()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--demos", type=Path, required=True, help="A demonstration folder.")
    parser.add_argument("--steps", type=int, default=40, help="Optimiser steps to measure.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
