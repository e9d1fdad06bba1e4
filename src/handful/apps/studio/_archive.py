"""A folder that was packed into a ZIP file: a demonstration set, or RGB-D recordings.

Whoever uploads a file may have made it to do harm. Another process unpacks and reads it, with
limits of time, memory and disk, and writes what it found as a demonstration set.
This module is both sides.
"""

from __future__ import annotations

import io
import json
import lzma
import resource
import struct
import subprocess
import sys
import threading
import zipfile
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

from handful._memory import bounded_memory
from handful.demos import DemoSet, load_demos, member_path, save_demos
from handful.errors import FileFormatError, HandfulError, OptionError

MANIFEST, RECORDINGS = "demos.json", "recordings.json"
"""By which demonstration sets and folders of RGB-D recordings are known."""
MOST_FILES = 20_000
MOST_UNPACKED = 2**30
"""Bytes of all files of an archive."""
MOST_SECONDS = 240
"""Of the processor, for one archive."""
PATIENCE = 900.0
"""Seconds by the clock, on a machine that has other things to do."""
REFUSED = 3
"""Status of a process that says why it did not read the archive."""
_PART = 2**20
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,  # a way to pack that Python does not know
    RuntimeError,  # it wants a password
    ValueError,
    OSError,
)


class ArchiveReader:
    """Reads packed folders, whoever packed them. Any thread may call it.

    Args:
        max_points: Archives with a larger cloud are refused.
        seconds: Of the processor, for one archive.
    """

    def __init__(self, max_points: int, seconds: int = MOST_SECONDS) -> None:
        self._max_points, self._seconds = max_points, seconds
        self._one_at_a_time = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, content: bytes, name: str) -> DemoSet:
        """The demonstrations in an archive.

        Args:
            content: All bytes of the file.
            name: Its name, for messages.

        Raises:
            HandfulError: There are none, or they take too much time or memory.
        """
        if not self._one_at_a_time.acquire(blocking=False):
            raise OptionError(f"{name}: another archive is being read: wait for it.")
        try:
            with TemporaryDirectory(prefix="handful-") as folder:
                asked = {"name": name, "folder": folder, "max_points": self._max_points}
                said = json.dumps({**asked, "seconds": self._seconds})
                self._ask(said.encode() + b"\n" + content, name)
                return load_demos(_read(Path(folder)))
        finally:
            self._one_at_a_time.release()

    def close(self) -> None:
        """Give up what is being read."""
        process = self._process
        if process is not None:
            process.kill()

    def _ask(self, question: bytes, name: str) -> None:
        with subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the caller
        ) as process:
            self._process = process
            try:
                _, problem = process.communicate(question, PATIENCE)
            except (subprocess.TimeoutExpired, OSError):
                process.kill()
                problem = b""
            self._process = None
        if process.returncode == REFUSED:
            raise FileFormatError(problem.decode("utf-8", "replace").strip())
        if process.returncode != 0:
            raise FileFormatError(f"{name}: takes too much time or memory to unpack and to read.")


def opened_folder(path: Path) -> DemoSet:
    """The demonstrations in a folder.

    Raises:
        HandfulError: It is neither a demonstration set nor a folder of RGB-D recordings.
    """
    if (path / RECORDINGS).is_file():
        from handful.recordings import import_rgbd

        return import_rgbd(path)
    return load_demos(path)


def unpacked(content: bytes, name: str, folder: Path) -> Path:
    """Unpack an archive.

    Args:
        content: All bytes of the file.
        name: Its name, for messages.
        folder: Where to; made.

    Returns:
        The folder in it that holds a demonstration set or recordings.

    Raises:
        HandfulError: It is damaged or too large, leads out of the folder, or holds nothing of the
            kind.
    """
    folder.mkdir()
    room = MOST_UNPACKED
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [one for one in archive.infolist() if not one.is_dir()]
            if len(members) > MOST_FILES:
                raise FileFormatError(
                    f"{name}: holds {len(members):,} files: at most {MOST_FILES:,}."
                )
            for member in members:
                path = member_path(folder, member.filename, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as packed, open(path, "xb") as file:
                    while part := packed.read(_PART):
                        room -= len(part)
                        if room < 0:
                            raise FileFormatError(
                                f"{name}: holds more than {MOST_UNPACKED >> 20} MiB."
                            )
                        file.write(part)
    except HandfulError:
        raise
    except _DAMAGED as error:
        raise FileFormatError(f"{name}: is no whole ZIP file: {error}.") from error
    found = [one for what in (MANIFEST, RECORDINGS) for one in folder.rglob(what)]
    if not found:
        raise FileFormatError(
            f"{name}: holds neither {MANIFEST} nor {RECORDINGS}: pack a demonstration set, or a "
            "folder of RGB-D recordings."
        )
    return min(found, key=lambda one: len(one.parts)).parent


def demos_of(content: bytes, name: str, folder: Path, max_points: int) -> DemoSet:
    """The demonstrations in an archive, which is unpacked into a folder that is made.

    Raises:
        HandfulError: As for `ArchiveReader.read`.
    """
    demos = opened_folder(unpacked(content, name, folder))
    for demo in demos:
        for step in demo.steps:
            for cloud in (step.scene, step.grasp):
                if cloud is not None and len(cloud) > max_points:
                    raise FileFormatError(
                        f"{name}: demonstration {demo.name!r}, step {step.name!r} has a cloud of "
                        f"{len(cloud):,} points: at most {max_points:,}."
                    )
    return demos


def _read(folder: Path) -> Path:
    """Where the other side writes what it found."""
    return folder / "read"


def main() -> None:
    """The other side: a question and the archive from the standard input."""
    asked = json.loads(sys.stdin.buffer.readline())
    content = sys.stdin.buffer.read()
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + asked["seconds"]
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    name, folder = asked["name"], Path(asked["folder"])
    try:
        with bounded_memory(Path(name)):
            demos = demos_of(content, name, folder / "unpacked", asked["max_points"])
        save_demos(demos, _read(folder))
    except HandfulError as error:
        told = str(error).replace(f"{folder / 'unpacked'}/", "")  # names of the archive's own files
        print(told, file=sys.stderr)
        sys.exit(REFUSED)
