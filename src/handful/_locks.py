"""Lock files: one process at a time works on a thing."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from handful._files import StrPath
from handful.errors import BusyError, FileFormatError


@contextmanager
def exclusive(path: StrPath) -> Iterator[None]:
    """Hold a lock file while the block runs; other processes that ask for it wait.

    The file stays there, empty: removing it would let two processes hold two files of one name.

    Raises:
        FileFormatError: The file cannot be made.
    """
    descriptor = _opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def alone(path: StrPath, what: str) -> Iterator[None]:
    """Hold a lock file while the block runs; another process that asks for it is told.

    The lock goes with the process, however that ends. The file stays there, as for `exclusive`.

    Args:
        path: The file.
        what: What is worked on, for the other's message.

    Raises:
        BusyError: Another process holds it.
        FileFormatError: The file cannot be made.
    """
    descriptor = _opened(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "?"
            raise BusyError(
                f"{what} is being worked on by another process ({holder}): wait until it has "
                "ended, or name another folder."
            ) from error
        with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _opened(path: StrPath) -> int:
    """A descriptor of a lock file. No link is followed: the number of a process is written there.

    Raises:
        FileFormatError: The file cannot be made, or something else has its name.
    """
    try:
        flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o644)
    except OSError as error:
        reason = error.strerror
        if error.errno == errno.ELOOP:
            reason = "a link has the name of a lock file; remove it"
        raise FileFormatError(f"{path}: cannot be written: {reason}.") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileFormatError(
            f"{path}: cannot be written: something that is no file has the name of a lock file; "
            "remove it."
        )
    return descriptor
