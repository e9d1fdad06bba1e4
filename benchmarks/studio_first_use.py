"""A new user's first minutes in the studio: from three clouds without poses to poses in a fourth.

Chromium is driven as a person drives it: clouds are uploaded, the gripper is put onto the rims of
the mugs by clicks on the page, a model is trained, and its poses are looked at in a cloud that was
not taught. Nothing is done at the command line but starting the studio, and the checks are not
overruled. One cloud is of real depth cameras, the other three are made up. What every part took is
printed, pictures of the page are saved, and at the end the script says where the first pose is.

    python benchmarks/studio_first_use.py REAL_CLOUD --low 0.40 -0.07 0.05 --high 0.50 0.05 0.11 \
        --out out/first_use

`--low` and `--high` are a box around the upper part of the real mug: a person sees where its rim
is, a script has to be told.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from handful.clouds import PointCloud, read_cloud, write_cloud
from handful.demos import gripper_named, make_sample
from handful.learning import RunFolder
from handful.policy import Predictor
from studio_page import (
    browser,
    canvas_size,
    click_on,
    opened,
    pixel_of,
    rim_of,
    studio,
    upload,
    view_of,
)

SIZE = (1000, 620)
HAND = "franka-hand"
"""The studio's own choice."""
MADE_UP = 3
NEAR = 0.06
"""Metres around a made-up mug's contact point in which its rim is looked for."""
PICTURES = (0.1, 0.3, 0.6)
"""Shares of the training after which the page is photographed."""
ARROW = 0.1
"""Metres from the contact point to the tip of the gizmo's arrow along the approach, about."""
LIFTS = (0.012, 0.025, 0.04, 0.055, 0.04, 0.025, 0.012, 0.0)
"""Metres above the rim that the gripper is dragged to in the film, one after the other."""
FILM_SIZE, FILM_FRAME = (700, 434), 900
"""Width and height of the film, pixels, and milliseconds of a frame."""


class Diary:
    """What was done, and what it took."""

    def __init__(self, out: Path) -> None:
        self._out, self._rows = out, list[tuple[str, float]]()
        self._frames: list[Image.Image] = []
        self._start = time.monotonic()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure something."""
        start = time.monotonic()
        yield
        self._rows.append((name, time.monotonic() - start))
        print(f"{self._rows[-1][1]:7.1f} s  {name}", flush=True)

    def photograph(self, page: Any, name: str) -> None:
        """Save what the page shows."""
        page.wait_for_timeout(2500)  # software draws it, and the view glides
        page.screenshot(path=self._out / f"{name}.png")

    def film(self, page: Any) -> None:
        """Take a frame of the film."""
        page.wait_for_timeout(2500)
        frame = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        self._frames.append(frame.resize(FILM_SIZE, Image.Resampling.LANCZOS))

    def develop(self, name: str) -> None:
        """Save the film."""
        first, *others = self._frames
        file = self._out / f"{name}.gif"
        first.save(file, save_all=True, append_images=others, duration=FILM_FRAME, loop=0)

    def end(self) -> None:
        """Say the sum."""
        print(f"{time.monotonic() - self._start:7.1f} s  everything")


def made_up(seed: int) -> list[tuple[PointCloud, np.ndarray]]:
    """Scenes with a mug and a hanger, and a place on the rim of each mug."""
    demos = make_sample(MADE_UP, seed=seed)
    found = []
    for demo in demos:
        scene, pose = demo.steps[0].scene, demo.steps[0].targets[0]
        contact = (pose @ demos.gripper.T_gripper_contact)[:3, 3]
        found.append((scene, rim_of(scene.points, contact - NEAR, contact + NEAR)))
    return found


def teach(page: Any, diary: Diary, file: Path, spot: np.ndarray, film: bool) -> None:
    """Open a cloud, click on the rim, and add the step; drag the gripper besides for a film."""
    name = file.stem
    with diary.part(f"open {name}, click on the rim, add the step"):
        upload(page, "Open a cloud", file)
        page.get_by_text(f"{name} opened").wait_for()
        if film:
            diary.film(page)
        points = read_cloud(file).points
        click_on(page, points, spot)
        diary.photograph(page, f"teach_{name}")
        if film:
            diary.film(page)
            drag(page, diary, points)
        page.get_by_role("button", name="Add this step").click()
        page.get_by_text(f"demo_{name} added").wait_for()
    if film:
        page.get_by_role("heading", name="Teach").scroll_into_view_if_needed()
        diary.film(page)
        diary.develop("teach")


def drag(page: Any, diary: Diary, points: np.ndarray) -> None:
    """Drag the gripper up by the arrow of its approach, and down again."""
    told = page.get_by_text("Contact point").inner_text()
    contact = np.array(re.findall(r"-?[\d.]+", told.split(":")[1]), dtype=float) / 1000.0
    view, size = view_of(points), canvas_size(page)
    tip = contact - np.array([0.0, 0.0, ARROW])  # it comes from above
    page.mouse.move(*pixel_of(tip, *view, size))
    page.wait_for_timeout(1500)
    page.mouse.down()
    for lift in LIFTS:
        page.mouse.move(*pixel_of(tip + np.array([0.0, 0.0, lift]), *view, size), steps=4)
        diary.film(page)
    page.mouse.up()
    page.wait_for_timeout(1500)


def train(page: Any, diary: Diary, steps: int) -> None:
    """Train, with the checks, and photograph the page now and then."""
    with diary.part("train"):
        page.get_by_role("button", name="Train", exact=True).click()
        if steps:
            page.get_by_label("Training steps").fill(str(steps))
            page.get_by_label("Training steps").press("Enter")
        page.get_by_role("button", name="Start training").click()
        wanted = list(PICTURES)
        trained = page.get_by_text("Trained: pick")
        refused = page.get_by_text("Mend it in the room Teach")
        while not trained.is_visible():
            if refused.count():
                sys.exit(f"refused: {refused.first.inner_text()}")
            told = page.get_by_text("step ").all_inner_texts()
            counts = next((one for one in map(counted, told) if one is not None), None)
            if counts and wanted and counts[0] >= wanted[0] * counts[1]:
                diary.photograph(page, f"train_{int(100 * wanted.pop(0))}")
            page.wait_for_timeout(1000)
    diary.photograph(page, "train_done")


def counted(words: str) -> tuple[int, int] | None:
    """Steps done and steps in all, from the panel's `step 7 of 900`."""
    parts = words.replace(",", " ").split()
    for place in range(len(parts) - 3):
        if parts[place] == "step" and parts[place + 2] == "of":
            return int(parts[place + 1]), int(parts[place + 3])
    return None


def try_it(page: Any, diary: Diary, file: Path) -> str:
    """Open the fourth cloud and ask for poses; what the panel says of the first."""
    name = file.stem
    with diary.part(f"open {name}, find poses in it"):
        page.get_by_role("button", name="Teach", exact=True).click()
        upload(page, "Open a cloud", file)
        page.get_by_text(f"{name} opened").wait_for()
        page.get_by_role("button", name="Try", exact=True).click()
        page.get_by_text("pose 1 of").wait_for()
    diary.photograph(page, "try")
    told = str(page.get_by_text("pose 1 of").first.inner_text())
    page.keyboard.press("ArrowRight")
    page.get_by_text("pose 2 of").wait_for()
    with diary.part("look at its field"):
        page.get_by_role("button", name="Look", exact=True).click()
        page.get_by_text("Looked with").wait_for()
    diary.photograph(page, "look")
    return told


def where(run: Path, scene: PointCloud) -> str:
    """Where the first pose is, measured from the mug that the scene was made with."""
    predictor = RunFolder(run).predictor("pick")
    assert isinstance(predictor, Predictor)
    gripper = gripper_named(HAND)
    poses = predictor.for_gripper(gripper).answer(scene, None, n=30).poses
    red = scene.require_colors()
    is_mug = (red[:, 0] > 2.0 * red[:, 1]) & (red[:, 0] > 2.0 * red[:, 2])
    mug = scene.points[is_mug]
    top = mug[mug[:, 2] > mug[:, 2].max() - 0.005]
    lines = []
    for rank, pose in enumerate(poses[:5], 1):
        contact = (pose.T_scene_gripper @ gripper.T_gripper_contact)[:3, 3]
        gap = float(np.linalg.norm(top - contact, axis=1).min())
        below = float(mug[:, 2].max() - contact[2])
        lines.append(
            f"pose {rank}: contact point {1000 * gap:.0f} mm from the nearest point of the rim, "
            f"{1000 * below:.0f} mm below its height; confidence {pose.confidence:.2f}, "
            f"{'feasible' if pose.feasible else pose.reason}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("real", type=Path, help="a cloud of a real mug, z up")
    parser.add_argument("--low", type=float, nargs=3, required=True, help="box around its rim")
    parser.add_argument("--high", type=float, nargs=3, required=True)
    parser.add_argument("--steps", type=int, default=0, help="0: as many as the recipe says")
    parser.add_argument("--seed", type=int, default=5, help="of the made-up scenes")
    parser.add_argument("--out", type=Path, default=Path("out/first_use"), help="a new folder")
    options = parser.parse_args()
    out = options.out
    out.mkdir(parents=True)
    files, spots = [out / "real_mug.ply"], []
    write_cloud(read_cloud(options.real), files[0])
    spots.append(rim_of(read_cloud(files[0]).points, np.array(options.low), np.array(options.high)))
    for number, (scene, spot) in enumerate(made_up(options.seed)):
        files.append(out / f"mug_{'abc'[number]}.ply")
        write_cloud(scene, files[-1])
        spots.append(spot)
    print(f"load average at the start: {os.getloadavg()[0]:.1f}")
    diary = Diary(out)
    with studio(out / "cups") as running, browser() as chromium:
        with diary.part("open the page"):
            page = opened(chromium, running.url, SIZE, "Open a cloud above", fine=1.0)
        for file, spot in zip(files[:3], spots[:3], strict=True):
            teach(page, diary, file, spot, film=file is files[0])
        train(page, diary, options.steps)
        told = try_it(page, diary, files[3])
        diary.end()
        page.close()
    print(f"load average at the end: {os.getloadavg()[0]:.1f}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"CPU time of studio and training: {used.ru_utime + used.ru_stime:.0f} s")
    print(f"the page said: {told}")
    print(where(out / "cups" / "runs" / "first", read_cloud(files[3])))
    print(f"pictures, clouds and the studio's folder are in {out}")


if __name__ == "__main__":
    main()
