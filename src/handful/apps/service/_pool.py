"""Workers of a service: processes with loaded models, deadlines, cancellation and replacement.

What can be cancelled. A job that waits is dropped. A job that is being done is ended in two steps:
a signal, at which the worker gives it up within milliseconds and keeps its models; and, should it
not answer the signal, the end of the process, in whose place another one is started.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, runtime_checkable

from handful.apps.service._config import ServiceConfig
from handful.apps.service._entry import CANCEL, begin
from handful.apps.service._jobs import Message, started
from handful.errors import FileFormatError, HandfulError

GRACE = 1.0
"""Seconds that a worker has to answer a signal before it is ended."""
START_SECONDS = 120.0
"""A worker that has not loaded its models by then will not."""
RETRY_SECONDS = 2.0
"""Between two attempts to replace a worker that does not start."""


class BusyError(Exception):
    """As many jobs wait as may."""


class LateError(Exception):
    """The deadline of a job has passed."""


class LostError(Exception):
    """The worker of a job ended."""


@runtime_checkable
class Pool(Protocol):
    """Whatever does the jobs of a service."""

    async def start(self) -> dict[str, Any]:
        """Load the models; what is served.

        Raises:
            HandfulError: They cannot be loaded.
        """
        ...

    async def do(self, job: Message, deadline: float) -> Message:
        """The reply to a job. When the task that waits is cancelled, so is the job.

        Args:
            job: What to do.
            deadline: Value of `time.monotonic()` by which it must be done.

        Raises:
            BusyError: Too many jobs wait.
            LateError: The deadline has passed.
            LostError: The worker ended.
        """
        ...

    def figures(self) -> dict[str, float]:
        """Figures of the workers: ready, busy, waiting, restarts, cancelled, memory in bytes."""
        ...

    async def stop(self) -> None:
        """End all workers."""
        ...


@dataclass(eq=False)
class _Worker:
    """One process and the pipe to it."""

    process: BaseProcess
    connection: Connection
    pending: asyncio.Future[Message] | None = None


@dataclass
class _Counts:
    waiting: int = 0
    busy: int = 0
    restarts: int = 0
    cancelled: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class LocalPool:
    """Worker processes on this machine.

    They are forked from a server process that has loaded torch once (`forkserver`), so that a
    worker is replaced in a fraction of a second.

    Args:
        config: What is served, by how many workers.
        work: The workers' main function.
        preload: Modules that the server process loads before it forks.
    """

    def __init__(
        self,
        config: ServiceConfig,
        work: Callable[[Connection, ServiceConfig], None] = begin,
        preload: Sequence[str] = ("handful.apps.service._worker",),
    ) -> None:
        self._config = config
        self._work = work
        self._idle: asyncio.Queue[_Worker] = asyncio.Queue()
        self._workers: set[_Worker] = set()
        self._threads = ThreadPoolExecutor(2 * config.workers + 2, thread_name_prefix="pipe")
        self._counts = _Counts()
        self._stopping = False
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(preload))

    async def start(self) -> dict[str, Any]:
        """Start all workers; what they serve."""
        described = await asyncio.gather(*(self._start_one() for _ in range(self._config.workers)))
        return described[0]

    async def do(self, job: Message, deadline: float) -> Message:
        """See `Pool.do`."""
        worker = await self._free_worker(deadline)
        self._counts.busy += 1
        worker.pending = asyncio.ensure_future(self._asked(worker, job))
        try:
            return await asyncio.wait_for(
                asyncio.shield(worker.pending), max(deadline - time.monotonic(), 0.0)
            )
        except asyncio.TimeoutError as error:
            raise LateError from error
        finally:
            self._counts.busy -= 1
            self._release(worker)

    def figures(self) -> dict[str, float]:
        """See `Pool.figures`."""
        pids = [worker.process.pid for worker in self._workers]
        return {
            "ready": len(self._workers),
            "busy": self._counts.busy,
            "waiting": self._counts.waiting,
            "restarts": self._counts.restarts,
            "cancelled": self._counts.cancelled,
            "memory": float(sum(resident_bytes(pid) for pid in pids if pid is not None)),
        }

    async def stop(self) -> None:
        """End all workers: idle ones by closing their pipe, busy ones by the end of the process."""
        self._stopping = True
        for task in list(self._counts.tasks):
            task.cancel()
        for worker in list(self._workers):
            worker.connection.close()
            if worker.pending is not None:
                worker.process.kill()
        for worker in list(self._workers):
            await asyncio.get_running_loop().run_in_executor(None, _join, worker.process)
        self._workers.clear()
        self._threads.shutdown(wait=False)

    # --- one worker ------------------------------------------------------------------------

    async def _start_one(self) -> dict[str, Any]:
        """Start a worker, wait until its models are loaded, and let it take jobs."""
        loop = asyncio.get_running_loop()
        worker = await loop.run_in_executor(self._threads, self._forked)
        self._workers.add(worker)
        try:
            hello = await asyncio.wait_for(self._received(worker), START_SECONDS)
        except (LostError, asyncio.TimeoutError) as error:
            self._forget(worker)
            raise FileFormatError("a worker ended before its models were loaded.") from error
        try:
            served = started(hello)
        except HandfulError:
            self._forget(worker)
            raise
        self._idle.put_nowait(worker)
        return served

    def _forked(self) -> _Worker:
        here, there = self._context.Pipe()
        process = self._context.Process(target=self._work, args=(there, self._config), daemon=True)
        process.start()
        there.close()
        return _Worker(process, here)

    async def _free_worker(self, deadline: float) -> _Worker:
        counts = self._counts
        if self._idle.empty() and counts.waiting >= self._config.queue:
            raise BusyError
        counts.waiting += 1
        try:
            left = max(deadline - time.monotonic(), 0.0)
            return await asyncio.wait_for(self._idle.get(), left)
        except asyncio.TimeoutError as error:
            raise LateError from error
        finally:
            counts.waiting -= 1

    async def _asked(self, worker: _Worker, job: Message) -> Message:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._threads, worker.connection.send_bytes, job.encoded())
        except OSError as error:
            raise LostError from error
        return await self._received(worker)

    async def _received(self, worker: _Worker) -> Message:
        loop = asyncio.get_running_loop()
        try:
            data = await loop.run_in_executor(self._threads, worker.connection.recv_bytes)
        except (EOFError, OSError) as error:
            raise LostError from error
        return Message.decoded(data)

    def _release(self, worker: _Worker) -> None:
        """Let a worker take the next job, when it is done with this one or was made to be."""
        pending, worker.pending = worker.pending, None
        if pending is not None and pending.done() and pending.exception() is None:
            self._idle.put_nowait(worker)
        elif pending is not None and not self._stopping:
            worker.pending = pending
            task = asyncio.ensure_future(self._freed(worker, pending))
            self._counts.tasks.add(task)
            task.add_done_callback(self._counts.tasks.discard)

    async def _freed(self, worker: _Worker, pending: asyncio.Future[Message]) -> None:
        """End a worker's job by a signal, or else the worker."""
        if not pending.done():
            self._counts.cancelled += 1
            if worker.process.pid is not None:
                os.kill(worker.process.pid, CANCEL)
        try:
            await asyncio.wait_for(asyncio.shield(pending), GRACE)
        except (asyncio.TimeoutError, LostError):
            worker.process.kill()
            await asyncio.gather(pending, return_exceptions=True)
            await self._replace(worker)
        else:
            worker.pending = None
            self._idle.put_nowait(worker)

    async def _replace(self, worker: _Worker) -> None:
        self._forget(worker)
        while not self._stopping:
            self._counts.restarts += 1
            try:
                await self._start_one()
                return
            except HandfulError:
                await asyncio.sleep(RETRY_SECONDS)

    def _forget(self, worker: _Worker) -> None:
        self._workers.discard(worker)
        worker.process.kill()
        worker.connection.close()


def _join(process: BaseProcess) -> None:
    process.join(GRACE)
    if process.is_alive():
        process.kill()
        process.join(GRACE)


def resident_bytes(pid: int) -> int:
    """Memory that a process holds; 0 if it is gone or the system does not say."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
