"""A service in a process of its own, as a person starts it."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from command_line import HANDFUL
from handful.clouds import PointCloud
from handful.demos import Action
from handful.learning import train_in_folder
from samples import thin_sample
from small_training import small_recipe

ACTIONS = {"pick": Action.PICK, "place": Action.PLACE}


def small_run(folder: Path) -> Path:
    """A run whose models know next to nothing, and answer in a moment."""
    for name, action in ACTIONS.items():
        train_in_folder(thin_sample(), small_recipe(name, action, steps=2), folder)
    return folder


def in_bytes(cloud: PointCloud) -> PointCloud:
    """The cloud with colours of 8 bits, as cameras and files have them."""
    return PointCloud(cloud.points, np.rint(255 * cloud.require_colors()).astype(np.uint8))


def poses_of(answer) -> np.ndarray:
    return np.stack([pose.T_scene_gripper for pose in answer.poses])


class Service:
    """A running `handful serve`."""

    def __init__(self, run: Path, *options: object, **variables: str) -> None:
        words = [*HANDFUL, "serve", str(run), "--port", "0", *map(str, options)]
        environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", **variables}
        self.process = subprocess.Popen(
            words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+:\d+", line)
        assert found, self.process.communicate(timeout=10)[1]
        self.url = found.group()
        self.problems: list[str] = []
        self._draining = threading.Thread(target=self._drain, daemon=True)
        self._draining.start()

    def _drain(self) -> None:
        assert self.process.stderr is not None
        self.problems += self.process.stderr.readlines()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        try:
            return self.process.wait(60)
        finally:
            self.end()

    def end(self) -> None:
        """End it at once, if it still runs."""
        self.process.kill()
        self.process.wait()
        self._draining.join()
        self.process.stdout.close()
        self.process.stderr.close()


@contextmanager
def service(run: Path, *options: object, **variables: str) -> Iterator[Service]:
    running = Service(run, *options, **variables)
    try:
        yield running
    finally:
        running.stop()
