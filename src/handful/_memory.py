"""Bounded memory for what foreign files are unpacked to."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from handful.errors import FileFormatError

MOST_MEMORY = 2**30
"""Bytes of address space that a block may take beside what the process has already."""


@contextmanager
def bounded_memory(path: Path, most: int = MOST_MEMORY) -> Iterator[None]:
    """Let the block take so much more memory and no more, as long as it lasts.

    Libraries unpack what a file holds before anyone can ask how much it is; a file of a megabyte
    may hold gigabytes. The limit is one of the process (RLIMIT_AS): an allocation beyond it fails
    wherever it is made, and the failure is told in a sentence.

    Args:
        path: For the message.
        most: Bytes beside those that the process has mapped.

    Raises:
        FileFormatError: The block needed more.
    """
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = _mapped() + most
    if before[0] != resource.RLIM_INFINITY:
        limit = min(limit, before[0])
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    except MemoryError as error:
        raise FileFormatError(
            f"{path}: needs more than {most >> 20} MiB of memory when it is unpacked: damaged, or "
            "not what it says."
        ) from error
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _mapped() -> int:
    """Bytes of address space that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
