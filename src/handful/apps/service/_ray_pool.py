"""Workers of a service on a Ray cluster: replicas of Ray Serve behind the same address.

The front stays what it is, with its guard, queue and streams. Each replica is a `LocalPool` of one
worker on whatever machine Ray puts it: cancellation, deadlines and replacement of a worker are the
same there, and Ray Serve replaces replicas whose machine is lost. Models travel with the
deployment, because the run's folder may be on another machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from handful._cluster import join_cluster, ray_module
from handful._files import read_bytes
from handful.apps.service._config import ServiceConfig
from handful.apps.service._jobs import Message, not_started, reply, started
from handful.apps.service._pool import (
    GRACE,
    BusyError,
    LateError,
    LocalPool,
    LostError,
)
from handful.errors import ClusterError, FileFormatError, HandfulError

SUMMARY = "run.json"
MAX_FILE = 512 * 2**20
"""Bytes of one file of a model."""
LOOK_SECONDS = 1.0
"""Between two looks at how many replicas there are."""
LATE, BUSY, LOST = "late", "busy", "lost"
_ERRORS = {LATE: LateError, BUSY: BusyError, LOST: LostError}


class Replica:
    """What runs on the cluster, once for each of `--workers`.

    Args:
        config: What is served.
        packed: Ray's reference to the run's files, by their path in its folder.
    """

    async def __init__(self, config: ServiceConfig, packed: Any) -> None:  # type: ignore[misc]  # Ray Serve awaits it
        self._folder = tempfile.TemporaryDirectory(prefix="handful-replica-")
        unpack(await packed, Path(self._folder.name))
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        self._pool = LocalPool(replace(config, run=self._folder.name, workers=1))
        try:
            self._described = reply(200, json.dumps(await self._pool.start()))
        except HandfulError as error:  # told to the front, which says it and ends
            told = str(error).replace(self._folder.name, config.run)
            self._described = not_started(type(error)(told))

    async def describe(self) -> bytes:
        """What is served, or why nothing is."""
        return self._described.encoded()

    async def do(self, job: bytes, seconds: float) -> bytes:
        """The reply to a job; when Ray Serve cancels the call, the worker gives the job up."""
        try:
            done = await self._pool.do(Message.decoded(job), time.monotonic() + seconds)
        except (LateError, BusyError, LostError) as error:
            kinds = {kind: name for name, kind in _ERRORS.items()}
            done = Message({"status": 503, "failed": kinds[type(error)]})
        figures = {**self._pool.figures(), "replica": self._folder.name}
        return replace(done, header={**done.header, "figures": figures}).encoded()

    async def check_health(self) -> None:
        """Asked by Ray Serve now and then; raises when the worker does not come back."""
        if not self._pool.figures()["ready"]:
            await asyncio.sleep(GRACE)
            if not self._pool.figures()["ready"] and self._described.header["status"] == 200:
                raise RuntimeError("the replica has no worker.")


class RayPool:
    """Replicas on a Ray cluster; see `Pool`.

    Args:
        config: What is served; `config.ray` is the cluster's address, `config.workers` the number
            of replicas.
    """

    def __init__(self, config: ServiceConfig) -> None:
        self._config = config
        self._ray, self._serve = ray_module(), ray_module("ray.serve")
        self._name = f"handful-{config.port or os.getpid()}"
        self._free = asyncio.Semaphore(config.workers)
        self._waiting = self._busy = self._lost = self._ready = 0
        self._replicas: dict[str, dict[str, float]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._handle: Any = None

    async def start(self) -> dict[str, Any]:
        """Deploy the replicas; what they serve."""
        packed = pack(Path(self._config.run))
        await asyncio.to_thread(self._deploy, packed)
        answer = Message.decoded(await self._handle.describe.remote())
        served = started(answer)
        self._ready = await asyncio.to_thread(self._count)
        self._looking = asyncio.ensure_future(self._look())
        return served

    async def do(self, job: Message, deadline: float) -> Message:
        """See `Pool.do`."""
        await self._free_replica(deadline)
        self._busy += 1
        try:
            return await self._asked(job, deadline)
        finally:
            self._busy -= 1
            self._free.release()

    def figures(self) -> dict[str, float]:
        """See `Pool.figures`; memory, restarts and cancelled as replicas told them last."""
        told = list(self._replicas.values())[-self._config.workers :]
        return {
            "ready": self._ready,
            "busy": self._busy,
            "waiting": self._waiting,
            "restarts": self._lost + sum(one["restarts"] for one in told),
            "cancelled": sum(one["cancelled"] for one in told),
            "memory": sum(one["memory"] for one in told),
        }

    async def stop(self) -> None:
        """Take the replicas off the cluster, and leave it."""
        if self._looking is not None:
            self._looking.cancel()
        await asyncio.to_thread(self._leave)

    # --- the cluster -----------------------------------------------------------------------

    def _deploy(self, packed: dict[str, bytes]) -> None:
        config, address = self._config, self._config.ray
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        join_cluster(address, namespace="handful")
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        if config.workers > cores:
            raise ClusterError(
                f"--workers {config.workers}: the cluster at {address!r} has {cores} cores: need a "
                "core for each replica."
            )
        self._serve.start(proxy_location="Disabled")  # callers come through the front's guard only
        deployment = self._serve.deployment(
            num_replicas=config.workers,
            max_ongoing_requests=2,  # a cancelled call may still end while the next one comes
            ray_actor_options={"num_cpus": 1},
            health_check_period_s=5,
            graceful_shutdown_timeout_s=5,
            name="handful",
        )(Replica)
        bound = deployment.bind(replace(config, token=""), self._ray.put(packed))
        try:
            self._handle = self._serve.run(
                bound, name=self._name, route_prefix=None, blocking=False
            )
        except RuntimeError as error:
            raise ClusterError(
                f"the replicas do not start on the cluster at {address!r}: install handful[serve,"
                f"cluster] of this version on all of its machines ({str(error).splitlines()[0]})."
            ) from error

    def _count(self) -> int:
        """Replicas that can answer."""
        applications = self._serve.status().applications
        if self._name not in applications:
            return 0
        states = applications[self._name].deployments["handful"].replica_states
        return sum(count for state, count in states.items() if str(state) == "RUNNING")

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                self._ready = await asyncio.to_thread(self._count)
            except Exception:  # the cluster is gone, or has no head for a moment
                self._ready = 0

    def _leave(self) -> None:
        with contextlib.suppress(Exception):  # the cluster may be gone
            if self._ray.is_initialized():
                self._serve.delete(self._name)
                if not self._serve.status().applications:
                    self._serve.shutdown()
        self._ray.shutdown()

    # --- one job ---------------------------------------------------------------------------

    async def _free_replica(self, deadline: float) -> None:
        if self._free.locked() and self._waiting >= self._config.queue:
            raise BusyError
        self._waiting += 1
        try:
            await asyncio.wait_for(self._free.acquire(), max(deadline - time.monotonic(), 0.0))
        except asyncio.TimeoutError as error:
            raise LateError from error
        finally:
            self._waiting -= 1

    async def _asked(self, job: Message, deadline: float) -> Message:
        left = max(deadline - time.monotonic(), 0.0)
        response = self._handle.do.remote(job.encoded(), left)
        try:
            data = await asyncio.wait_for(_awaited(response), left + GRACE)
        except asyncio.TimeoutError as error:
            response.cancel()
            raise LateError from error
        except asyncio.CancelledError:
            response.cancel()
            raise
        except Exception as error:
            self._lost += 1
            raise LostError from error
        done = Message.decoded(data)
        figures = dict(done.header.pop("figures"))
        name = str(figures.pop("replica"))
        self._replicas.pop(name, None)
        self._replicas[name] = figures  # the last to answer stands last
        if "failed" in done.header:
            raise _ERRORS[done.header["failed"]]
        return done


async def _awaited(response: Any) -> bytes:
    return bytes(await response)


def pack(run: Path) -> dict[str, bytes]:
    """The files that the models of a run consist of, by their path in its folder.

    Raises:
        HandfulError: There are none, or one is too large.
    """
    summary = run / SUMMARY
    paths = [summary] if summary.exists() else []
    for folder in sorted(run.iterdir()) if run.is_dir() else ():
        if (folder / "config.json").exists():
            paths += sorted(path for path in folder.iterdir() if path.is_file())
    if not paths:
        there = "holds no training run" if run.is_dir() else "there is no such folder"
        raise FileFormatError(f"{run}: {there}: give the folder of `handful train`.")
    return {path.relative_to(run).as_posix(): read_bytes(path, MAX_FILE) for path in paths}


def unpack(packed: dict[str, bytes], folder: Path) -> None:
    """Write packed files into a folder."""
    for name, content in packed.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
