"""Run a service until it is told to stop: bind, load, say so, answer, finish what was begun."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from handful.apps._listening import bound, web_address
from handful.apps.service._config import ServiceConfig, check_service
from handful.apps.service._front import create_app
from handful.apps.service._pool import LocalPool, Pool
from handful.apps.service._ray_pool import RayPool

SHUTDOWN_SECONDS = 10
"""Requests that are under way have so long to end when the service is told to stop."""

BACKLOG = 512
"""Connections that the system keeps until the service takes them."""


def serve(
    config: ServiceConfig,
    ready: Callable[[str], None],
    make_pool: Callable[[ServiceConfig], Pool] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        config: What is served.
        ready: Told the service's address when it answers.
        make_pool: Makes the workers; on this machine or on Ray, as `config` says, if not given.

    Raises:
        HandfulError: The run cannot be served, or the address cannot be used.
    """
    check_service(config)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the workers
    listener = bound(config.host, config.port)
    with listener:
        asyncio.run(_serve(config, listener, ready, make_pool or _pool_for))


def _pool_for(config: ServiceConfig) -> Pool:
    return RayPool(config) if config.ray else LocalPool(config)


async def _serve(
    config: ServiceConfig,
    listener: socket.socket,
    ready: Callable[[str], None],
    make_pool: Callable[[ServiceConfig], Pool],
) -> None:
    pool = make_pool(config)
    try:
        described = await pool.start()
        server = _Server(
            uvicorn.Config(
                create_app(config, pool, described),
                lifespan="off",
                http="h11",  # whichever other parsers are installed: its limits are those tested
                ws="none",
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                h11_max_incomplete_event_size=64 * 1024,
            )
        )
        with _stopped_by_signals(server):
            listener.listen(BACKLOG)  # from now on callers are kept, not refused
            ready(web_address(listener))
            await server.serve(sockets=[listener])
    finally:
        await pool.stop()


class _Server(uvicorn.Server):
    """A server that leaves signals to `_stopped_by_signals`, and so ends without raising them."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class _stopped_by_signals:
    """SIGINT and SIGTERM let a server finish what it has begun, and end."""

    def __init__(self, server: uvicorn.Server) -> None:
        self._server = server

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    def _stop(self) -> None:
        if self._server.should_exit:  # told twice: at once
            self._server.force_exit = True
        self._server.should_exit = True
