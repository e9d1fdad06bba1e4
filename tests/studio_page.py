"""A studio in a process of its own, and a real browser that opens its page."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from msgspec.msgpack import decode

from command_line import HANDFUL

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WITHOUT_GPU = [
    "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
]  # fmt: skip
PATIENCE = 120_000
"""Milliseconds that a page may take: software draws it, on a machine with other things to do."""


def need_browser() -> None:
    """Skip, with a sentence, where there is no browser to drive."""
    pytest.importorskip("viser", reason="the studio needs the extra `view`")
    pytest.importorskip("playwright", reason="the studio's pages are tested with playwright")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")


class StudioProcess:
    """A running `handful studio`."""

    def __init__(self, folder: Path, *options: object, **variables: str) -> None:
        words = [*HANDFUL, "studio", str(folder), "--port", "0", *map(str, options)]
        environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", **variables}
        self.process = subprocess.Popen(
            words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+:\d+", line)
        assert found, line + self.process.communicate(timeout=10)[0]
        self.url = found.group()
        self.folder = folder
        self.said = ""

    def stop(self) -> int:
        """Stop as Ctrl-C does; `said` is what it said after its address. Once is enough."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.said = self.process.communicate(timeout=90)[0]
            finally:
                self.process.kill()
                self.process.wait()
        return self.process.returncode


@contextmanager
def studio(folder: Path, *options: object, **variables: str) -> Iterator[StudioProcess]:
    running = StudioProcess(folder, *options, **variables)
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def browser() -> Iterator[object]:
    """Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=WITHOUT_GPU)
        try:
            yield chromium
        finally:
            chromium.close()


def opened(
    chromium: object,
    url: str,
    size: tuple[int, int] = (900, 420),
    words: str = "Contact point",
    listening: bool = False,
    fine: float = 0.5,
) -> object:
    """The studio's page, when its panel with these words is there.

    If it is `listening`, the page's `heard` is what the studio sends to it. `fine` is the number of
    pixels that are drawn for each one of the page's own: few take less time, where software draws.
    """
    width, height = size
    page = chromium.new_page(viewport={"width": width, "height": height}, device_scale_factor=fine)
    page.set_default_timeout(PATIENCE)
    if listening:
        page.heard = Heard(page)
    page.goto(url)
    page.get_by_text(words).wait_for()
    return page


class Heard:
    """What the studio sends to a page: what the page draws, before it is drawn.

    A picture of the page would not do: the page draws finer or coarser pictures as it has the time.
    """

    def __init__(self, page: object) -> None:
        self._page, self._messages = page, list[dict]()
        page.on("websocket", self._opened)

    def _opened(self, socket: object) -> None:
        socket.on("framereceived", lambda frame: self._messages.extend(decode(frame)))

    def all(self) -> list[dict]:
        """The messages so far."""
        self._page.wait_for_timeout(50)  # they come while the page is waited for
        return self._messages.copy()

    def during(self, milliseconds: int) -> list[dict]:
        """The messages that come in a time from now on."""
        start = len(self._messages)
        self._page.wait_for_timeout(milliseconds)
        return self.all()[start:]

    def last(self, kind: str, name: str) -> dict | None:
        """The latest message of a kind about a thing of the scene."""
        found = [one for one in self.all() if one["type"] == kind and one.get("name") == name]
        return found[-1] if found else None

    def colors(self, name: str) -> dict[str, bytes]:
        """Colours of the blocks of a cloud, as they were sent last."""
        return {
            one["name"]: one["props"]["colors"]
            for one in self.all()
            if one["type"] == "PointCloudMessage" and one["name"].startswith(name)
        }


def places(messages: list[dict], name: str) -> np.ndarray:
    """Where a thing of the scene was put, one place after the other."""
    found = [
        one["position"]
        for one in messages
        if one["type"] == "SetPositionMessage" and one["name"] == name
    ]
    return np.array(found).reshape(-1, 3)


def until(true: object, seconds: float = PATIENCE / 1000.0) -> None:
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.2)


def pixel_of(
    point: np.ndarray, position: np.ndarray, target: np.ndarray, size: tuple[float, float]
) -> tuple[float, float]:
    """Where a page shows a point: its camera is at `position`, looks at `target`, z is up.

    The library's camera sees 75 degrees from bottom to top.
    """
    forward = (target - position) / np.linalg.norm(target - position)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    offset = point - position
    scale = size[1] / 2.0 / np.tan(np.radians(75.0) / 2.0) / (offset @ forward)
    return size[0] / 2.0 + scale * (offset @ right), size[1] / 2.0 - scale * (offset @ up)


def view_of(scene: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the camera of a page stands, and where it looks, when a scene was opened."""
    low, high = np.percentile(scene, [2.0, 98.0], axis=0)
    center, radius = (low + high) / 2.0, float(np.linalg.norm(high - low)) / 2.0
    return center + 0.95 * radius * np.array([0.9, -1.35, 1.05]), center


def gizmo_tip(pose: np.ndarray, contact: np.ndarray, axis: int) -> np.ndarray:
    """A place on the arrow of the gizmo along an axis of the contact frame."""
    T = pose @ contact
    return T[:3, 3] + 0.11 * 0.9 * T[:3, axis]


def upload(page: object, button: str, file: Path) -> None:
    """Give a file to a button of the page."""
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name=button).click()
    chooser.value.set_files(file)


def canvas_size(page: object) -> tuple[float, float]:
    """Width and height of the page's drawing, pixels."""
    box = page.locator("canvas").last.bounding_box()
    return box["width"], box["height"]


def click_on(page: object, scene: np.ndarray, spot: np.ndarray) -> None:
    """Put the gripper where a point of the scene is, in a page that shows all of the scene."""
    page.get_by_role("button", name="Put it where I click").click()
    page.get_by_text("Click on the scene").wait_for()
    page.wait_for_timeout(1000)
    x, y = pixel_of(spot, *view_of(scene), canvas_size(page))
    # Notices lie over the scene for some seconds: a click there is none on the scene.
    free = "([x, y]) => document.elementFromPoint(x, y).tagName === 'CANVAS'"
    page.wait_for_function(free, arg=[x, y])
    page.mouse.click(x, y)
    page.get_by_text("The gripper is where you clicked").wait_for()


def rim_of(scene: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """A point on the upper edge of what is in a box, on the side of the page's camera."""
    inside = scene[((scene >= low) & (scene <= high)).all(axis=1)]
    top = inside[inside[:, 2] > inside[:, 2].max() - 0.006]
    return top[np.argmax(top @ np.array([0.9, -1.35, 0.0]))]
