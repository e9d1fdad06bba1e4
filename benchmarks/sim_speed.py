"""Speed of the simulated world, as ratios to what is asked of it.

    OMP_NUM_THREADS=1 taskset -c 0 .venv/bin/python benchmarks/sim_speed.py [--leak 1000]

Prints physics against real time, a nine-camera observation against 0.6 s, a whole episode without
inference against 3 s for each step, and with `--leak N` how much memory N whole episodes leave
behind. Times are of the processor: other programs on the machine do not count.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time

import numpy as np

from handful.policy import Motion, Watcher
from handful.sim import TASKS, Setup, oracle_pose, run_oracle


def physics_ratio(name: str) -> float:
    """Simulated seconds per second of processor time, with the object in the hand."""
    task = TASKS[name]
    step = task.task.steps[0]
    with task.reset(1, Setup.TRAINED) as episode:
        pose = oracle_pose(episode, step)
        assert pose is not None
        episode.execute(step, Motion.along_approach(pose, episode.gripper))
        start = time.process_time()
        episode.world.advance(3.0)
        return 3.0 / (time.process_time() - start)


def observation_time(name: str) -> float:
    with TASKS[name].reset(1, Setup.ALL) as episode:
        episode.observe_scene()
        start = time.process_time()
        for _ in range(5):
            episode.observe_scene()
            episode.observe_grasp()
        return (time.process_time() - start) / 5


def episode_times(name: str, setup: Setup, count: int) -> np.ndarray:
    """Seconds of reset, all steps of the oracle with their scene clouds, and judging."""
    task, times = TASKS[name], []
    for seed in range(count):
        start = time.process_time()
        with task.reset(seed, setup) as episode:
            run_oracle(episode, watcher=Watcher())
        times.append(time.process_time() - start)
    return np.array(times)


def memory() -> float:
    """Resident megabytes."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 2**20


def leak(count: int) -> float:
    """Megabytes that whole episodes of all tasks and setups leave behind."""
    kinds = list(itertools.product(TASKS.values(), Setup))

    def once(seed: int) -> None:
        task, setup = kinds[seed % len(kinds)]
        with task.reset(seed, setup) as episode:
            episode.observe_scene()
            run_oracle(episode)
            episode.observe_scene()
            episode.observe_grasp()

    for seed in range(2 * len(kinds)):
        once(seed)
    before = memory()
    for seed in range(count):
        once(seed)
        if (seed + 1) % 50 == 0:
            print(f"  {seed + 1} episodes: {memory() - before:+.1f} MB", flush=True)
    return memory() - before


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--leak", type=int, default=0, help="count memory over this many episodes")
    parser.add_argument("--episodes", type=int, default=8)
    options = parser.parse_args()
    for name in TASKS if options.episodes else ():
        ratio = physics_ratio(name)
        print(f"{name}: physics runs {ratio:.1f} x real time (asked: 5)")
        seconds = observation_time(name)
        print(f"{name}: nine cameras in {seconds:.3f} s, {0.6 / seconds:.1f} x faster than asked")
        for setup in (Setup.TRAINED, Setup.ALL):
            times = episode_times(name, setup, options.episodes)
            print(
                f"{name}, {setup.value}: episode {times.mean():.2f} s (longest {times.max():.2f}), "
                f"{3.0 * len(TASKS[name].task) / times.mean():.1f} x faster than asked"
            )
    if options.leak:
        grown = leak(options.leak)
        print(f"{options.leak} episodes left {grown:.1f} MB behind")


if __name__ == "__main__":
    main()
