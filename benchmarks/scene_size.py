"""Memory and time of inference for scenes from a table to a room.

    python benchmarks/scene_size.py --run runs/mug --demos out/mug --step pick

Each scene is made up: a floor, four walls from 2 m on, boxes of any size and colour on the floor,
and the first demonstrated scene in the middle. Each is searched in a process of its own. Memory is
the peak of that process ("all") and what the search added to the interpreter, the libraries and the
cloud ("search"). Time is CPU time of `Predictor.sample`, also divided by the number of points that
are encoded: the last column is constant if time grows with the occupied space only.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from handful.clouds import PointCloud
from handful.demos import Step, load_demos
from handful.errors import HandfulError
from handful.policy import load_predictor

SIZES = (
    (0.5, 5_000), (1.0, 50_000), (2.0, 200_000), (2.0, 2_000_000), (4.0, 1_000_000),
    (6.0, 1_000_000), (6.0, 10_000_000),
)  # fmt: skip


def main() -> None:
    options = _options()
    torch.set_num_threads(1)
    if options.one:
        extent, count = options.one
        _measure(options, float(extent), int(count))
        return
    print(
        "extent m | points   | encoded | tiles | CPU s | all GB | search GB | best   | ms/encoded"
    )
    for extent, count in SIZES:
        where = ["--run", str(options.run), "--demos", str(options.demos), "--step", options.step]
        command = [sys.executable, __file__, *where, "--one", str(extent), str(count)]
        subprocess.run(command, check=False)


def _measure(options: argparse.Namespace, extent: float, count: int) -> None:
    """One scene: a line of the table."""
    predictor = load_predictor(options.run / options.step)
    step = load_demos(options.demos)[0].step(options.step)
    scene = made_up_scene(step, extent, count)
    grasp = step.grasp if predictor.step.action.holding else None
    before, start = _peak(), time.process_time()
    try:
        view = predictor.look(scene, grasp)
        found = view.sample(n=8)
    except HandfulError as error:
        print(f"{extent:8} | {count:8} | {error}", flush=True)
        return
    seconds, points = time.process_time() - start, view.points
    print(
        f"{extent:8} | {len(scene):8} | {points:7} | {len(view.tiles):5} | {seconds:5.1f} | "
        f"{_peak():6.2f} | {_peak() - before:9.2f} | {found.energy[0]:6.2f} | "
        f"{1000 * seconds / points:.2f}",
        flush=True,
    )


def made_up_scene(step: Step, extent: float, count: int) -> PointCloud:
    """A room around a demonstrated scene, `count` points in all."""
    rng = np.random.default_rng(0)
    own = step.scene.subsampled(max(count // 2, 2) if extent <= 1.0 else min(50_000, count // 2), 0)
    left, half = count - len(own), 0.5 * extent
    low, high = own.bounds
    middle, floor = 0.5 * (low + high), float(low[2])
    surfaces = [(np.array([-half, -half, 0.0]), np.array([extent, 0, 0]), np.array([0, extent, 0]))]
    if extent >= 2.0:
        up = np.array([0.0, 0.0, 2.5])
        for x, y, side in ((-1, -1, (1, 0)), (-1, 1, (1, 0)), (-1, -1, (0, 1)), (1, -1, (0, 1))):
            corner = np.array([x * half, y * half, 0.0])
            surfaces.append((corner, extent * np.array([*side, 0.0]), up))
    for _ in range(int(4 * extent**2)):
        size, corner = rng.uniform(0.05, 0.3, 3), rng.uniform(-half, half, 3) * [1, 1, 0]
        edges = np.diag(size)
        for one, two in ((0, 1), (0, 2), (1, 2)):
            other = 3 - one - two
            surfaces.append((corner, edges[one], edges[two]))
            surfaces.append((corner + edges[other], edges[one], edges[two]))
    areas = np.array([np.linalg.norm(np.cross(one, two)) for _, one, two in surfaces])
    counts = rng.multinomial(left, areas / areas.sum())
    points, colors = np.empty((left, 3), np.float32), np.empty((left, 3), np.float32)
    start = 0
    for (corner, one, two), some in zip(surfaces, counts.tolist(), strict=True):
        place = rng.random((some, 2), dtype=np.float32)
        part = slice(start, start + some)
        points[part] = corner + place[:, :1] * one + place[:, 1:] * two
        colors[part] = rng.random(3)
        start += some
    points += np.array([middle[0], middle[1], floor], np.float32)
    outside = ~((points[:, :2] > low[:2]) & (points[:, :2] < high[:2])).all(axis=1)
    points, colors = points[outside], colors[outside]
    return PointCloud(
        np.concatenate([own.points, points]), np.concatenate([own.require_colors(), colors])
    )


def _peak() -> float:
    """The process's peak memory so far, GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True, help="a run of `handful train`")
    parser.add_argument("--demos", type=Path, required=True, help="where the target comes from")
    parser.add_argument("--step", default="pick", help="name of the step")
    parser.add_argument("--one", nargs=2, metavar=("EXTENT", "POINTS"), help="one scene only")
    return parser.parse_args()


if __name__ == "__main__":
    main()
