"""The simulated robot asks `handful serve` in another process, and does as well as in process.

    python benchmarks/remote_robot.py --run runs/mug --task mug --seeds 2200:2220

For each seed the same episode is run twice: with the models in this process, and with
`handful.policy.RemotePredictor`, which asks a service that this script starts. One noisy camera
looks at the scene. The printed ratio is that of successes, remote to in process; poses that were
executed are compared, too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from handful.bench.run import EpisodeRecord, run_episode
from handful.bench.run._policies import trained_predictors
from handful.client import Client
from handful.nn import keep_freed_memory
from handful.policy import remote_task
from handful.sim import SIMULATED, CameraRig, Setup, task_named

SERVE = [sys.executable, "-m", "handful", "serve"]


@contextmanager
def served(run: Path) -> Iterator[Client]:
    """A service in another process, and a client of it."""
    process = subprocess.Popen(
        [*SERVE, str(run), "--port", "0", "--timeout", "120", "--gripper", SIMULATED.name],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+:\d+", process.stdout.readline())
        if found is None:
            raise SystemExit("the service did not start.")
        with Client(found.group(), timeout=120.0) as client:
            yield client
    finally:
        process.terminate()
        process.wait()


def executed(record: EpisodeRecord) -> list[object]:
    return [step.T_scene_gripper for step in record.steps]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--task", default="mug")
    parser.add_argument("--setup", default="all")
    parser.add_argument("--seeds", default="2200:2220")
    parser.add_argument("--out", type=Path, help="write one JSON line for each episode")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    task, rig = task_named(options.task), CameraRig(1, 2, "usual", arm_in_view=False)
    first, end = map(int, options.seeds.split(":"))
    here = trained_predictors(options.run, task.task, SIMULATED)
    lines, same = [], 0
    seconds = {"in process": 0.0, "remote": 0.0}
    with served(options.run) as client:
        known, there = remote_task(client, SIMULATED)
        assert known == task.task
        for seed in range(first, end):
            records = {}
            for name, predictors in (("in process", here), ("remote", there)):
                start = time.perf_counter()
                with task.reset(seed, Setup.named(options.setup), rig=rig) as episode:
                    records[name] = run_episode(episode, lambda _, used=predictors: used)
                seconds[name] += time.perf_counter() - start
            won = {name: record.success for name, record in records.items()}
            pairs = [executed(record) for record in records.values()]
            alike = len(pairs[0]) == len(pairs[1]) and all(
                (one is None and two is None)
                or (one is not None and two is not None and np.array_equal(one, two))
                for one, two in zip(*pairs, strict=True)
            )
            same += alike
            reasons = {name: record.reason for name, record in records.items()}
            lines.append({"seed": seed, **won, "same_poses": alike, "reasons": reasons})
            print(seed, won, "the same poses" if alike else "other poses", flush=True)
    if options.out is not None:
        options.out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    count = {name: sum(bool(line[name]) for line in lines) for name in seconds}
    print(f"{len(lines)} episodes of {options.task} ({options.setup}, {rig.words}):")
    for name in seconds:
        print(f"  {name}: {count[name]} successes, {seconds[name] / len(lines):.1f} s an episode")
    print(f"  the same poses executed in {same} of {len(lines)}")
    ratio = count["remote"] / max(count["in process"], 1)
    print(f"  ratio of successes, remote to in process: {ratio:.2f}")


if __name__ == "__main__":
    main()
