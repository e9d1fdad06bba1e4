"""Writing files so that a reader sees the old content or the new, never half of it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, FileIO
from pathlib import Path
from typing import BinaryIO

from handful.errors import FileFormatError

StrPath = str | os.PathLike[str]

_TAIL = 4096
"""Bytes that are looked at together for the end of a line."""


def read_bytes(path: StrPath, most: int) -> bytes:
    """The content of a file, bounded.

    Args:
        path: A regular file, or a link to one: pipes and devices have no end.
        most: Bytes at most.

    Raises:
        FileFormatError: It cannot be read, is no regular file, or is larger.
    """
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise FileFormatError(f"{os.fspath(path)}: is larger than {most / 2**20:.3g} MiB.")
    return data


@contextmanager
def open_regular(path: StrPath) -> Iterator[BufferedReader]:
    """Open a file for reading: the one guard against what has no end.

    A pipe would wait for somebody to write into it, and a device may give bytes for ever. What
    the operating system refuses while the block reads is said in the same sentence.

    Args:
        path: A regular file, or a link to one.

    Raises:
        FileFormatError: It cannot be read, or is no regular file.
    """
    name = os.fspath(path)
    try:
        # Without O_NONBLOCK, opening a pipe waits.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise FileFormatError(f"{name}: cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise FileFormatError(f"{name!r}: is not a usable path: {error}.") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileFormatError(f"{name}: cannot be read: it is no regular file.")
        with open(descriptor, "rb", closefd=False) as file:
            yield file
    except OSError as error:
        raise FileFormatError(f"{name}: cannot be read: {error.strerror or error}.") from error
    finally:
        os.close(descriptor)


def check_regular(path: StrPath) -> None:
    """Refuse what is no regular file, before a library that takes a path opens it.

    Raises:
        FileFormatError: It cannot be read, or is a pipe, a device or a folder.
    """
    with open_regular(path):
        pass


def file_digest(path: StrPath) -> bytes:
    """The SHA-256 digest of a file of any size.

    Raises:
        FileFormatError: It cannot be read, or is no regular file.
    """
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while part := file.read(2**20):
            digest.update(part)
    return digest.digest()


def atomic_write_bytes(path: StrPath, data: bytes) -> None:
    """Replace the content of a file in one step.

    Args:
        path: Where to write; an existing file is replaced. A symbolic link is followed, if it
            leads to a file of the same folder.
        data: The whole new content.

    Raises:
        FileFormatError: It cannot be written; what was there before is still there.
    """
    with atomic_writer(path) as file:
        file.write(data)


def atomic_write_text(path: StrPath, text: str) -> None:
    """The same for text, in UTF-8 and with line ends as they are."""
    atomic_write_bytes(path, text.encode("utf-8"))


@contextmanager
def atomic_writer(path: StrPath) -> Iterator[BinaryIO]:
    """A file to write into that takes its place under `path` only when the block ends well.

    The bytes go to a hidden file in the same folder (a rename is atomic only within one file
    system), reach the disk, and then replace `path`. If the block or the disk fails, the hidden
    file is removed and `path` is as it was.

    Args:
        path: As for `atomic_write_bytes`.

    Raises:
        FileFormatError: It cannot be written, with the reason.
    """
    target = _writable_target(path)
    folder = os.path.dirname(target)
    hidden = os.path.join(folder, f".handful-{secrets.token_hex(8)}.part")
    try:
        with open(hidden, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(hidden, target)
        _sync_folder(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileFormatError(f"{target}: cannot be written: {reason}.") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(hidden)


def append_line(path: StrPath, line: str) -> None:
    """Add a line to a file; it is on the disk when this returns.

    The file has whole lines only: one that a full disk cuts off is taken back, and one that was
    cut off when an earlier process ended is dropped.

    Raises:
        FileFormatError: It cannot be written, with the reason.
    """
    refuse_link_out(path)
    try:
        with open(path, "a+b", buffering=0) as file:
            end = _end_of_lines(file)
            file.truncate(end)
            try:
                content = line.encode("utf-8") + b"\n"
                if file.write(content) != len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(end)
                raise
    except OSError as error:
        raise FileFormatError(f"{os.fspath(path)}: cannot be written: {error.strerror}.") from error


def _end_of_lines(file: FileIO) -> int:
    """Where the last whole line of a file ends."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - _TAIL)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _writable_target(path: StrPath) -> str:
    """The real path behind links, once it is clear that a file can stand there."""
    try:
        target = os.path.realpath(path)
        parent = os.path.dirname(target)
        refuse_link_out(path)
        if os.path.isdir(target):
            raise FileFormatError(f"{target}: is a folder; give the path of a file.")
        if not os.path.isdir(parent):
            raise FileFormatError(
                f"{target}: cannot be written: the folder {parent} does not exist; make it first."
            )
    except (OSError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{os.fspath(path)!r}: is not a usable path: {error}.") from error
    return target


def _sync_folder(folder: str) -> None:
    """Make the rename itself survive a power cut, where the file system can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def staged_folder(folder: StrPath) -> Iterator[Path]:
    """A folder to fill beside `folder`, which it replaces once the block has succeeded.

    A full disk, an error or Ctrl-C leaves what was there before; nothing half-written stays. A
    symbolic link is followed, so that it stays one.

    Raises:
        FileFormatError: The operating system refuses, or the folder is the one being worked in.
    """
    try:
        target = Path(os.path.realpath(folder))
        if Path.cwd().is_relative_to(target):
            raise FileFormatError(
                f"{target}: is where you are now and cannot be replaced: name a folder in it."
            )
    except (OSError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{os.fspath(folder)!r}: is not a usable path: {error}.") from error
    staging = _hidden_sibling(target)
    make_folder(target.parent)
    try:
        _remove_stale(target)
        staging.mkdir()
    except OSError as error:
        raise FileFormatError(f"{target}: cannot be made: {error.strerror}.") from error
    try:
        yield staging
        _put_in_place(staging, target)
    except OSError as error:
        raise FileFormatError(f"{target}: cannot be written: {error.strerror}.") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _hidden_sibling(path: Path) -> Path:
    return path.parent / f".{path.name}-{secrets.token_hex(8)}.part"


def _remove_stale(path: Path) -> None:
    """Remove hidden folders of processes that ended while they wrote, an hour ago or earlier."""
    hidden = re.compile(rf"\.{re.escape(path.name)}-[0-9a-f]{{16}}\.part")
    for one in path.parent.iterdir():
        if hidden.fullmatch(one.name) and one.stat().st_mtime < time.time() - 3600:
            shutil.rmtree(one, ignore_errors=True)


def _put_in_place(staging: Path, target: Path) -> None:
    """Rename the new folder to its name; an old one goes only once the new one is there."""
    if not target.exists():
        staging.replace(target)
        return
    if _exchanged(staging, target):
        shutil.rmtree(staging, ignore_errors=True)
        return
    old = _hidden_sibling(target)
    target.replace(old)
    try:
        staging.replace(target)
    except BaseException:
        old.replace(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Swap the names of two folders in one step, where system and file system can.

    With two renames instead there is a moment at which nothing has the name.
    """
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
    return renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


def make_folder(path: StrPath) -> None:
    """Make a folder and those above it, where they are missing.

    Raises:
        FileFormatError: It cannot be made, with the reason.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = "a file stands in its way"
        raise FileFormatError(f"{os.fspath(path)!r}: cannot be made: {reason}.") from error


def make_subfolder(path: StrPath) -> None:
    """Make a folder whose name is ours in a folder that may come from anyone.

    Raises:
        FileFormatError: It cannot be made, or is a link that leads out.
    """
    refuse_link_out(path)
    make_folder(path)


def remove_file(path: StrPath) -> None:
    """Remove a file, if it is there; of a link, the link.

    Raises:
        FileFormatError: It cannot be removed, with the reason.
    """
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileFormatError(f"{os.fspath(path)!r}: cannot be removed: {reason}.") from error


def refuse_link_out(path: StrPath) -> None:
    """Refuse a link that leads out of the folder in which it stands.

    A folder that somebody else has made may hold such links in place of the files that are
    written there: whoever put them there would choose what is overwritten.

    Raises:
        FileFormatError: It is such a link.
    """
    if not os.path.islink(path):
        return
    target, home = os.path.realpath(path), os.path.realpath(os.path.dirname(os.fspath(path)) or ".")
    if os.path.commonpath([target, home]) != home:
        raise FileFormatError(
            f"{os.fspath(path)}: cannot be written: it is a link that leads out of its folder, to "
            f"{target}: remove the link, or name that place."
        )
