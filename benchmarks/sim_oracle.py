"""Success of the oracles, with Wilson 95 % intervals, and the reasons of all failures.

.venv/bin/python benchmarks/sim_oracle.py --task mug --setup all --episodes 100
.venv/bin/python benchmarks/sim_oracle.py --task mug --objects ../shared/meshes/mug --episodes 20
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from handful.sim import TASKS, Setup, SimError, load_things, run_oracle


def wilson(successes: int, count: int) -> tuple[float, float]:
    """The Wilson score interval at 95 %."""
    z, share = 1.96, successes / count
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return max(0.0, middle - half), min(1.0, middle + half)


def rate(name: str, setup: Setup, count: int, things=None) -> tuple[int, int, list[str]]:
    reasons, done = [], 0
    for seed in range(count):
        try:
            with TASKS[name].reset(seed, setup, things=things) as episode:
                verdict = run_oracle(episode)
        except SimError as error:
            return done - len(reasons), done, [*reasons, f"no layout: {error}"]
        done += 1
        if not verdict:
            reasons.append(f"seed {seed}: {verdict.reason}")
    return done - len(reasons), done, reasons


def tell(label: str, good: int, done: int, reasons: list[str]) -> None:
    low, high = wilson(good, done) if done else (0.0, 1.0)
    print(f"{label}: {good}/{done} [{low:.3f}, {high:.3f}]", flush=True)
    for reason in reasons:
        print(f"    {reason}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", choices=sorted(TASKS), action="append")
    parser.add_argument("--setup", choices=[setup.value for setup in Setup], action="append")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--objects", type=Path)
    options = parser.parse_args()
    for name in options.task or sorted(TASKS):
        if options.objects:
            things, refused = load_things(options.objects, name)
            for one in refused:
                print(f"refused: {one.reason}")
            for thing in things:
                half = options.episodes // 2
                up = rate(name, Setup.TRAINED, half, [thing])
                lying = rate(name, Setup.POSES, options.episodes - half, [thing])
                tell(f"{thing.name} ({len(thing.parts)} pieces), standing", *up)
                tell(f"{thing.name} ({len(thing.parts)} pieces), lying", *lying)
            continue
        for setup in options.setup or [setup.value for setup in Setup]:
            tell(f"{name}, {setup}", *rate(name, Setup(setup), options.episodes))


if __name__ == "__main__":
    main()
