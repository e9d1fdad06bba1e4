"""The service under load: requests from many clients, none lost; times; memory that stays flat.

    python benchmarks/service.py --run runs/mug --scene out/mug/demo_00/pick_scene.ply --step pick

Starts `handful serve` in another process. Part one: `--requests` questions for poses from
`--clients` threads at once; each must be answered, and as a predictor in this process answers it.
Part two: `--cheap` requests that cost the service little (health, tasks, broken uploads, a stream
that is begun and ended, and one question for poses in fifty). Both tell the memory of the service
and of its workers before, during and after. Times are also ratios to the predictor in this process.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import httpx
import numpy as np
import torch

from handful.client import Client, Retries
from handful.clouds import read_cloud
from handful.learning import RunFolder
from handful.policy import Predictor

MEGABYTE = 2**20


@contextmanager
def served(run: Path, workers: int) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "handful", "serve", str(run), "--port", "0", "--timeout", "120",
         "--workers", str(workers)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+:\d+", process.stdout.readline())
        if found is None:
            raise SystemExit("the service did not start.")
        yield found.group()
    finally:
        process.terminate()
        process.wait()


def memory(url: str) -> tuple[float, float]:
    """Megabytes of the service and of its workers."""
    text = httpx.get(f"{url}/metrics", timeout=60.0).text
    names = ("process_resident_memory_bytes", "handful_workers_memory_bytes")
    values = [float(re.findall(rf"^{name} (\S+)$", text, re.MULTILINE)[0]) for name in names]
    return values[0] / MEGABYTE, values[1] / MEGABYTE


def in_threads(count: int, threads: int, work: Callable[[int], None]) -> None:
    """Do numbered pieces of work, each once, from several threads."""
    numbers, lock = iter(range(count)), threading.Lock()

    def loop() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            work(number)

    running = [threading.Thread(target=loop) for _ in range(threads)]
    for one in running:
        one.start()
    for one in running:
        one.join()


def ask_for_poses(
    url: str, predictor: Predictor, options: argparse.Namespace, scene: object
) -> None:
    """Part one."""
    alone = []
    for _ in range(10):
        start = time.perf_counter()
        want = predictor.answer(scene, n=options.n)
        alone.append(time.perf_counter() - start)
    expected = np.stack([pose.T_scene_gripper for pose in want.poses])
    seconds, wrong, lost = [], [], []
    clients, figures = threading.local(), [memory(url)]

    def ask(number: int) -> None:
        if not hasattr(clients, "one"):
            clients.one = Client(url, timeout=120.0, retries=Retries(most=50))
        start = time.perf_counter()
        try:
            answer = clients.one.poses(options.step, scene, n=options.n)
        except Exception as error:  # whatever it is, the request is lost
            lost.append(error)
            return
        seconds.append(time.perf_counter() - start)
        poses = np.stack([pose.T_scene_gripper for pose in answer.poses])
        if not np.array_equal(poses, expected):
            wrong.append(number)
        if number % max(options.requests // 10, 1) == 0:
            figures.append(memory(url))

    start = time.perf_counter()
    in_threads(options.requests, options.clients, ask)
    total = time.perf_counter() - start
    one = float(np.median(alone))
    half, most = np.percentile(seconds, [50, 99])
    print(
        f"{options.requests} questions from {options.clients} clients, {options.workers} workers:"
    )
    print(f"  lost {len(lost)}, other than in process {len(wrong)}")
    print(f"  {total / options.requests:.3f} s for each, {options.requests / total:.1f} a second")
    print(f"  50th percentile {half:.2f} s, 99th {most:.2f} s, with {options.clients} at once")
    print(f"  in process, one after the other: {one:.3f} s; ratio of the time for each to it: "
          f"{total / options.requests / one:.2f}", flush=True)  # fmt: skip
    for error in lost[:3]:
        print(f"  lost: {error}")
    print_memory([*figures, memory(url)])


def print_memory(figures: list[tuple[float, float]]) -> None:
    """What the service and its workers needed, from the first request to the last."""
    for name, values in zip(("service", "workers"), zip(*figures, strict=True), strict=True):
        told = " ".join(f"{value:.0f}" for value in values)
        print(f"  memory of the {name}, MB, from first to last: {told}; ratio of the last to the "
              f"third: {values[-1] / values[2]:.2f}", flush=True)  # fmt: skip


def ask_cheaply(url: str, options: argparse.Namespace, scene: object) -> None:
    """Part two."""
    clients = threading.local()
    unexpected: list[object] = []
    figures = [memory(url)]

    def expect(response: httpx.Response, status: int) -> None:
        if response.status_code != status:
            unexpected.append((response.status_code, response.text[:100]))

    def ask(number: int) -> None:
        if not hasattr(clients, "one"):
            clients.one = Client(url, timeout=120.0, retries=Retries(most=50))
            clients.http = httpx.Client(base_url=url, timeout=120.0)
        http, path = clients.http, f"/v1/steps/{options.step}"
        try:
            if number % 50 == 0:
                clients.one.poses(options.step, scene, n=1)
            elif number % 5 == 0:
                broken = [("scene", ("a.ply", b"ply\nformat ascii 1.0\n" + b"x" * 20_000))]
                done = http.post(f"{path}/poses", files=broken)
                if done.status_code != 429:
                    expect(done, 422)
            elif number % 5 == 1:
                begun = http.post(f"{path}/tracks")
                expect(begun, 201)
                expect(http.delete(f"/v1/tracks/{begun.json()['track']}"), 204)
            else:
                expect(http.get("/v1/health" if number % 2 else "/v1/tasks"), 200)
        except Exception as error:
            unexpected.append(error)
        if number % (options.cheap // 5) == options.cheap // 5 - 1:
            figures.append(memory(url))

    start = time.perf_counter()
    in_threads(options.cheap, options.clients, ask)
    figures.append(memory(url))
    print(f"{options.cheap} requests, mostly cheap, in {time.perf_counter() - start:.0f} s: "
          f"{len(unexpected)} unexpected answers {unexpected[:3] or ''}")  # fmt: skip
    print_memory(figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--scene", type=Path, required=True)
    parser.add_argument("--step", required=True, help="a step with an empty gripper")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--cheap", type=int, default=10_000)
    parser.add_argument("-n", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    predictor = RunFolder(options.run).predictor(options.step)
    scene = read_cloud(options.scene)
    with served(options.run, options.workers) as url:
        if options.requests:
            ask_for_poses(url, predictor, options, scene)
        if options.cheap:
            ask_cheaply(url, options, scene)


if __name__ == "__main__":
    main()
