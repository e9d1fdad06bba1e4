"""Bounded reading: what a header claims is checked against the bytes that are really there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase

from handful._files import StrPath, open_regular
from handful.errors import EmptyCloudError, FileFormatError

MAX_HEADER_BYTES = 64 * 1024
MAX_HEADER_LINES = 1000
MAX_LINE_BYTES = 1024 * 1024
MAX_COUNT_DIGITS = 18
"""Counts of more digits than this do not fit any file, and would be slow to convert."""


@dataclass(frozen=True, eq=False)
class Source:
    """A file open for reading that never gives, or asks memory for, more than it holds.

    Attributes:
        path: For messages.
        file: Open for binary reading.
        size: Bytes in the file.
        max_points: More points than this are refused.
    """

    path: str
    file: BufferedIOBase
    size: int
    max_points: int

    def error(self, problem: str) -> FileFormatError:
        """An error that names the file."""
        return FileFormatError(f"{self.path}: {problem}")

    @property
    def left(self) -> int:
        """Bytes between here and the end."""
        return max(self.size - self.file.tell(), 0)

    def take(self, count: int, what: str) -> bytes:
        """The next `count` bytes, all of them."""
        data = self.file.read(count) if count <= self.left else b""
        if len(data) != count:
            raise self.error(
                f"{what} needs {count} bytes and {self.left} are left: the file is truncated or "
                "its header is wrong."
            )
        return data

    def skip(self, count: int, what: str) -> None:
        """Pass over the next `count` bytes, all of which must exist."""
        if count > self.left:
            raise self.error(
                f"{what} takes {count} bytes and {self.left} are left: the file is truncated or "
                "its header is wrong."
            )
        self.file.seek(count, os.SEEK_CUR)

    def check_points(self, count: int) -> None:
        """Refuse a number of points that is none, or more than the caller allows."""
        if count == 0:
            raise EmptyCloudError(f"{self.path}: the header says 0 points: need at least 2.")
        if count > self.max_points:
            raise self.error(
                f"the header says {count} points: at most {self.max_points} are read "
                "(raise max_points if that is meant)."
            )

    def check_rows(self, count: int, row_bytes: int, what: str) -> None:
        """Refuse a number of rows that the rest of the file cannot hold."""
        if count * row_bytes > self.left:
            raise self.error(
                f"the header says {count} {what} rows of at least {row_bytes} bytes, "
                f"{count * row_bytes} in all, and {self.left} bytes follow: the file is truncated "
                "or its header is wrong."
            )

    def header_lines(self, end: str) -> Iterator[str]:
        """The lines of a text header; the caller stops at the line that ends it.

        Args:
            end: What ends the header, for the message when it never comes.
        """
        for _ in range(MAX_HEADER_LINES):
            line = self.file.readline(MAX_HEADER_BYTES + 1 - self.file.tell())
            if self.file.tell() > MAX_HEADER_BYTES:
                raise self.error(f"no {end} in the first {MAX_HEADER_BYTES} bytes.")
            if not line:
                raise self.error(f"the file ends before {end}: it is truncated.")
            yield as_text(line)
        raise self.error(f"no {end} in the first {MAX_HEADER_LINES} lines.")

    def whole_number(self, text: str, what: str) -> int:
        """A count as it stands in a header: digits and nothing else."""
        if not (text.isdigit() and len(text) <= MAX_COUNT_DIGITS):
            raise self.error(
                f"{what} is {quoted(text)}: need a whole number, 0 or more, of at most "
                f"{MAX_COUNT_DIGITS} digits."
            )
        return int(text)


@contextmanager
def open_source(path: StrPath, max_points: int) -> Iterator[Source]:
    """Open a regular file; whatever the operating system refuses is said in one sentence."""
    name = os.fspath(path)
    try:
        os.fsencode(name)
    except UnicodeEncodeError as error:
        raise FileFormatError(f"{name!r}: is not a usable path.") from error
    if "\0" in name:
        raise FileFormatError(f"{name!r}: is not a usable path.")
    try:
        kind = os.stat(name).st_mode
        if stat.S_ISDIR(kind):
            raise FileFormatError(f"{name}: is a folder; give the path of a cloud file.")
        if not stat.S_ISREG(kind):
            raise FileFormatError(f"{name}: is a device or pipe; give the path of a cloud file.")
        with open_regular(name) as file:
            yield Source(name, file, os.fstat(file.fileno()).st_size, max_points)
    except FileNotFoundError as error:
        raise FileFormatError(f"{name}: there is no such file.") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileFormatError(f"{name}: cannot be read: {reason}.") from error


def as_text(line: bytes) -> str:
    """A line without its end; bytes that are not ASCII become marks that parse as nothing."""
    return line.decode("ascii", "replace").strip()


def quoted(text: str) -> str:
    """A piece of a file, short and printable, for a message."""
    return repr(text if len(text) <= 48 else text[:45] + "...")
