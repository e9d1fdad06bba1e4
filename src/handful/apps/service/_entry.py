"""Where a worker process begins. The service itself imports this, and never torch."""

from __future__ import annotations

import signal
from multiprocessing.connection import Connection

from handful.apps.service._config import ServiceConfig

CANCEL = signal.SIGUSR1
"""Ends a worker's job."""


def begin(connection: Connection, config: ServiceConfig) -> None:
    """The main function of a worker process; see `_worker.work`."""
    from handful.apps.service._worker import work

    work(connection, config)
