"""What a service is asked to be; plain words and numbers, so that workers can be told, too."""

from __future__ import annotations

import math
from dataclasses import dataclass

from handful.apps._listening import check_listening, is_loopback
from handful.errors import OptionError

Six = tuple[float, float, float, float, float, float]
Four = tuple[float, float, float, float]


@dataclass(frozen=True)
class ServiceConfig:
    """Of `handful serve`.

    Attributes:
        run: Folder of the run.
        steps: Names of the steps that are served; empty for all.
        gripper: Another gripper than the demonstrations': a known hand, or a file; empty for none.
        host: Address to listen on.
        port: Port; 0 lets the system choose one.
        token: That callers must show; empty for none, on loopback only.
        hosts: Further names under which callers may address the service.
        workers: Processes that infer.
        ray: Address of a Ray cluster on which they run, `auto` for the present one; empty for
            this machine.
        queue: Requests that may wait for a worker.
        max_bytes: Of one request's body.
        max_points: Of one cloud or depth image.
        timeout: Longest time that a request may take, from its last byte on, seconds.
        max_age: Oldest stamp of an observation, seconds.
        max_tracks: Streams that may be followed at once.
        track_seconds: A stream is forgotten when no frame comes for so long.
        workspace: As `--workspace`; None for everywhere.
        approach: As `--approach`; None for all directions.
        table: As `--table`.
        least_confidence: Poses of lower confidence are never chosen.
    """

    run: str
    steps: tuple[str, ...] = ()
    gripper: str = ""
    host: str = "127.0.0.1"
    port: int = 8720
    token: str = ""
    hosts: tuple[str, ...] = ()
    workers: int = 1
    ray: str = ""
    queue: int = 16
    max_bytes: int = 64 * 2**20
    max_points: int = 4_000_000
    timeout: float = 20.0
    max_age: float = 5.0
    max_tracks: int = 64
    track_seconds: float = 60.0
    workspace: Six | None = None
    approach: Four | None = None
    table: float | None = None
    least_confidence: float = 0.5

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        return is_loopback(self.host)


def check_service(config: ServiceConfig) -> None:
    """Refuse what would be unsafe or senseless.

    Raises:
        OptionError: One sentence.
    """
    check_listening(config.host, config.token, "send clouds to this service")
    for name in ("timeout", "max_age", "track_seconds"):
        value = getattr(config, name)
        if not (math.isfinite(value) and value > 0):
            raise OptionError(f"{name} is {value}: need a positive number of seconds.")
    for name in ("workers", "queue", "max_bytes", "max_points", "max_tracks"):
        if getattr(config, name) < 1:
            raise OptionError(f"{name} is {getattr(config, name)}: need 1 or more.")
