"""How long the studio's page takes to load, and to follow the mouse, with small and large clouds.

One process has the studio and drives the browser, so that all times are of one clock. Each line is
the median of some tries. `answer` is the time from a move of the mouse, with a button held down on
the gizmo, until the page's panel shows another place: to the server, the checks, and back. `checks`
is what the server computes for it, and `whole checks` what it would compute with the checks of a
demonstration set.

    python benchmarks/studio.py --points 50000 1000000
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from handful.apps.studio import Studio, StudioConfig
from handful.apps.studio._document import Document, Scene
from handful.apps.studio._folder import StudioFolder
from handful.checks import check_demos
from handful.clouds import PointCloud
from handful.demos import Action, gripper_named
from studio_page import browser, canvas_size, gizmo_tip, pixel_of, view_of

HAND = gripper_named("simulated")
SIZE = (900, 420)


def scene(points: int, seed: int = 0) -> PointCloud:
    """A table of 1 m with balls on it."""
    rng = np.random.default_rng(seed)
    table = np.column_stack([rng.uniform(-0.5, 0.5, (points // 2, 2)), np.zeros(points // 2)])
    direction = rng.normal(size=(points - points // 2, 3))
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    centers = np.column_stack([rng.uniform(-0.4, 0.4, (8, 2)), np.full(8, 0.05)])
    centers[0] = [0.0, 0.0, 0.05]
    balls = 0.05 * direction + centers[rng.integers(0, 8, len(direction))]
    colors = rng.uniform(0.3, 0.9, (points, 3))
    return PointCloud(
        np.concatenate([table, balls]) + 0.0005 * rng.normal(size=(points, 3)), colors
    )


def measure(points: int, tries: int) -> dict[str, float]:
    pose = np.diag([1.0, -1.0, -1.0, 1.0])
    pose[:3, 3] = 0.0, 0.0, 0.09 + 0.145
    cloud = scene(points)
    with tempfile.TemporaryDirectory() as folder:
        store = StudioFolder(Path(folder) / "studio")
        document = Document(HAND).with_scene(Scene("balls", cloud))
        document = document.taught("balls", "take", next(iter(Action)), pose)
        start = time.perf_counter()
        store.save(document)
        found = {"first save": time.perf_counter() - start}
        start = time.perf_counter()
        store.save(document.with_pose("demo_balls", "take", 0, pose))
        found["save after a drag"] = time.perf_counter() - start
        start = time.perf_counter()
        check_demos(document.demos)
        found["whole checks"] = time.perf_counter() - start
        start = time.perf_counter()
        studio = Studio(StudioConfig(folder=str(Path(folder) / "studio"), port=0))
        studio.session.desk.wait(600)
        found["start"] = time.perf_counter() - start
        try:
            found |= in_browser(studio, pose, cloud, tries)
        finally:
            studio.close()
    return found


def in_browser(studio: Studio, pose: np.ndarray, cloud: PointCloud, tries: int) -> dict[str, float]:
    loads, answers = [], []
    position, look = view_of(cloud.points)
    posed, gripper = studio.teach._posed, studio.session.state.document.gripper
    assert posed is not None
    start = time.perf_counter()
    for _ in range(50):
        posed.told(pose, gripper, thorough=False)
    checks = (time.perf_counter() - start) / 50
    with browser() as chromium:
        for _ in range(tries):
            start = time.perf_counter()
            page = chromium.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
            page.set_default_timeout(300_000)
            page.goto(studio.address)
            page.get_by_text("Contact point").wait_for()
            loads.append(time.perf_counter() - start)
            if len(loads) < tries:
                page.close()
        page.wait_for_timeout(5000)
        tip = gizmo_tip(pose, HAND.T_gripper_contact, 0)
        x, y = pixel_of(tip, position, look, canvas_size(page))
        page.mouse.move(x, y)
        page.wait_for_timeout(3000)
        page.mouse.down()
        words = page.get_by_text("Contact point")
        for number in range(12):
            before = words.inner_text()
            start = time.perf_counter()
            page.mouse.move(x + 2 * (number + 1), y)
            while words.inner_text() == before and time.perf_counter() - start < 20.0:
                pass
            answers.append(time.perf_counter() - start)
        page.mouse.up()
    return {
        "page load": statistics.median(loads),
        "answer": statistics.median(answers[1:]),
        "slowest answer": max(answers[1:]),
        "checks": checks,
        "shown points": float(len(studio.teach.stage.contents().clouds[0])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, nargs="+", default=[50_000, 1_000_000])
    parser.add_argument("--tries", type=int, default=3)
    options = parser.parse_args()
    columns = [measure(points, options.tries) for points in options.points]
    print("| | " + " | ".join(f"{points:,} points" for points in options.points) + " |")
    print("|---|" + "---|" * len(columns))
    for name in columns[0]:
        values = [column[name] for column in columns]
        unit = "{:,.0f}" if name == "shown points" else "{:.3f} s"
        print(f"| {name} | " + " | ".join(unit.format(value) for value in values) + " |")


if __name__ == "__main__":
    main()
