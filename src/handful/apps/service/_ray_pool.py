"""Workers of a service as replicas on a Ray cluster, behind the service's own address.

Each replica has a worker process of its own (`LocalPool`), so that deadlines and cancellation reach
the work on whatever machine it is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from dataclasses import replace
from typing import Any

from handful.apps.service._config import ServiceConfig
from handful.apps.service._jobs import Message, problem
from handful.apps.service._pool import BusyError, LateError, LocalPool, LostError
from handful.errors import OptionError

APPLICATION = "handful"
LATE, LOST = 504, 503


class Replica:
    """One replica: the models of a run in a worker process.

    Args:
        config: What is served.
    """

    def __init__(self, config: ServiceConfig) -> None:
        self._pool = LocalPool(replace(config, workers=1))
        self._starting = asyncio.get_event_loop().create_task(self._pool.start())

    async def describe(self) -> dict[str, Any]:
        """What is served, or a field `problem` with a sentence."""
        try:
            return await asyncio.shield(self._starting)
        except OptionError as error:
            return {"problem": str(error)}

    async def do(self, job: bytes, seconds: float) -> bytes:
        """The reply to a job, within some seconds."""
        deadline = time.monotonic() + seconds
        try:
            await asyncio.shield(self._starting)
            answer = await self._pool.do(Message.decoded(job), deadline)
        except (LateError, BusyError):
            answer = problem(LATE, "late")
        except LostError:
            answer = problem(LOST, "lost")
        return answer.encoded()


class RayPool:
    """Replicas on the cluster of the variable RAY_ADDRESS, or on a local one.

    The run's folder must be at the same place on every machine.

    Args:
        config: What is served, by how many replicas.
    """

    def __init__(self, config: ServiceConfig) -> None:
        self._config = config
        self._handle: Any = None
        self._waiting = self._cancelled = 0

    async def start(self) -> dict[str, Any]:
        """See `Pool.start`."""
        _join_cluster()
        await asyncio.get_running_loop().run_in_executor(None, self._deploy)
        described = dict(await self._handle.describe.remote())
        if "problem" in described:
            await self.stop()
            raise OptionError(described["problem"])
        return described

    def _deploy(self) -> None:
        from ray import serve

        serve.start(proxy_location="Disabled")
        deployment = serve.deployment(
            Replica,
            num_replicas=self._config.workers,
            max_ongoing_requests=self._config.queue + 1,
            ray_actor_options={"num_cpus": 1},
        )
        self._handle = serve.run(deployment.bind(self._config), name=APPLICATION, route_prefix=None)

    async def do(self, job: Message, deadline: float) -> Message:
        """See `Pool.do`."""
        if self._waiting >= self._config.workers + self._config.queue:
            raise BusyError
        seconds = max(deadline - time.monotonic(), 0.01)
        self._waiting += 1
        response = self._handle.do.remote(job.encoded(), seconds)
        try:
            answer = Message.decoded(await asyncio.wait_for(_result(response), seconds + 1.0))
        except asyncio.TimeoutError as error:
            raise LateError from error
        except asyncio.CancelledError:
            self._cancelled += 1
            response.cancel()
            raise
        finally:
            self._waiting -= 1
        status = answer.header["status"]
        if status == LATE:
            raise LateError
        if status == LOST:
            raise LostError
        return answer

    def figures(self) -> dict[str, float]:
        """See `Pool.figures`; the replicas' memory is Ray's to tell."""
        busy = min(self._waiting, self._config.workers)
        return {
            "ready": self._config.workers if self._handle is not None else 0,
            "busy": busy,
            "waiting": self._waiting - busy,
            "restarts": 0,
            "cancelled": self._cancelled,
            "memory": 0.0,
        }

    async def stop(self) -> None:
        """Take the replicas down; a cluster that was there before stays."""
        await asyncio.get_running_loop().run_in_executor(None, _stop)


def _join_cluster() -> None:
    """Join a cluster, or begin one on this machine.

    Raises:
        OptionError: Ray is not installed, or there is no cluster at its address.
    """
    try:
        import ray
        from ray import serve as serve
    except ImportError as error:
        raise OptionError(
            "--ray needs Ray Serve: install the extra with `pip install 'handful[cluster]'`."
        ) from error
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        if not ray.is_initialized():
            ray.init(logging_level="error", log_to_driver=False, include_dashboard=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise OptionError(f"there is no Ray cluster to join: {error}.") from error


async def _result(response: Any) -> bytes:
    """The bytes of a replica's answer.

    Raises:
        LostError: The replica or its machine is gone.
    """
    from ray.exceptions import RayError

    try:
        return bytes(await response)
    except RayError as error:
        raise LostError from error


def _stop() -> None:
    import ray
    from ray import serve

    with contextlib.suppress(Exception):  # a cluster that is gone needs no care
        serve.delete(APPLICATION)
    ray.shutdown()
