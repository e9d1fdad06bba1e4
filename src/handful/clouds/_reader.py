"""Reading foreign cloud files, each in a process of its own.

A file may be made to take hours, or to unpack to gigabytes. Where a process has something to lose,
another process reads the file, with limits of time and memory, and hands back plain arrays. It is
started beforehand, because it takes seconds to load. This module is both sides.
"""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np

from handful._memory import bounded_memory
from handful.clouds._cloud import PointCloud
from handful.clouds.files import cloud_from_bytes, read_cloud
from handful.errors import FileFormatError, HandfulError, OptionError

MOST_SECONDS = 120
"""Of the processor, for one file."""
PATIENCE = 600.0
"""Seconds by the clock, on a machine that has other things to do."""
MOST_WAITING = 2
"""Files that are read or wait for it; their content is in memory."""
REFUSED = 3
"""Status of a process that says why it did not read the file."""


class CloudReader:
    """Reads cloud files, whoever made them. Any thread may call it.

    Args:
        max_points: Files with more points are refused.
        seconds: Of the processor, for one file.
    """

    def __init__(self, max_points: int, seconds: int = MOST_SECONDS) -> None:
        self._max_points, self._seconds = max_points, seconds
        self._one_at_a_time = threading.Lock()
        self._waiting = threading.Semaphore(MOST_WAITING)
        self._closed = False
        self._process = _started()

    def read(self, path: Path) -> PointCloud:
        """The cloud in a file of this computer.

        Raises:
            HandfulError: It is no cloud, or takes too much time or memory.
        """
        return self._ask({"path": str(path)}, b"")

    def read_bytes(self, content: bytes, name: str) -> PointCloud:
        """The cloud in the content of a file.

        Args:
            content: All bytes of the file.
            name: Its name, for messages and for the format.

        Raises:
            HandfulError: As for `read`.
        """
        return self._ask({"name": name}, content)

    def close(self) -> None:
        """Give up what is being read."""
        self._closed = True
        self._process.kill()
        with self._one_at_a_time:
            _end(self._process)

    def _ask(self, what: dict[str, str], content: bytes) -> PointCloud:
        where = next(iter(what.values()))
        if not self._waiting.acquire(blocking=False):
            raise OptionError(f"{where}: {MOST_WAITING} files are being read: wait for them.")
        said = json.dumps({**what, "max_points": self._max_points, "seconds": self._seconds})
        try:
            with self._one_at_a_time:
                return self._answer(where, said.encode() + b"\n" + content)
        finally:
            self._waiting.release()

    def _answer(self, where: str, question: bytes) -> PointCloud:
        process = self._process
        try:
            answer, problem = process.communicate(question, PATIENCE)
        except (subprocess.TimeoutExpired, OSError, ValueError):
            process.kill()
            answer, problem = b"", b""
        finally:
            _end(process)
            if not self._closed:
                self._process = _started()
        if process.returncode == REFUSED:
            raise FileFormatError(problem.decode("utf-8", "replace").strip())
        if process.returncode != 0:
            raise FileFormatError(
                f"{where}: takes too much time or memory to read, and is no usable cloud file."
            )
        with np.load(io.BytesIO(answer), allow_pickle=False) as found:
            colors = found["colors"]
            return PointCloud(found["points"], colors if len(colors) else None)


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the caller
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()
    process.wait()


def main() -> None:
    """The other side: a question and the file from the standard input, arrays to the output."""
    line = sys.stdin.buffer.readline()
    if not line:
        return  # the caller has ended
    asked = json.loads(line)
    content = sys.stdin.buffer.read()
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + asked["seconds"]
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    most = asked["max_points"]
    try:
        if "path" in asked:
            path = Path(asked["path"])
            with bounded_memory(path):
                cloud = read_cloud(path, max_points=most)
        else:
            with bounded_memory(Path(asked["name"])):
                cloud = cloud_from_bytes(content, asked["name"], max_points=most)
    except HandfulError as error:
        print(error, file=sys.stderr)
        sys.exit(REFUSED)
    colors = np.zeros((0, 3), np.float32) if cloud.colors is None else cloud.colors
    np.savez(sys.stdout.buffer, points=cloud.points, colors=colors)
