"""How many threads torch uses while episodes run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def use_one_thread() -> None:
    """Let torch use one thread in this process from now on; for processes that only run episodes.

    As many processes as cores, with one thread each, are faster than one process with as many
    threads. Sums of numbers come out the same however many processes there are.
    """
    torch.set_num_threads(1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread while the block runs; afterwards as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
