"""Joining a Ray cluster, which may be missing: the benchmark and the service do it."""

from __future__ import annotations

import importlib
import socket
from typing import Any

from handful.errors import ClusterError

KNOCK_SECONDS = 5.0
"""A cluster has so long to take a connection."""


def ray_module(name: str = "ray") -> Any:
    """Ray, or one of its modules, which is not installed with `handful` alone.

    Raises:
        ClusterError: It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ClusterError("Ray is not installed: pip install 'handful[cluster]'.") from error


def join_cluster(address: str, **options: Any) -> Any:
    """Ray, connected to a cluster.

    Args:
        address: `auto` for the cluster that this machine belongs to, or `HOST:PORT`.
        options: Of `ray.init`.

    Raises:
        ClusterError: Ray is not installed, or no cluster answers there.
    """
    ray = ray_module()
    try:
        _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **options)
    except (OSError, OverflowError, ValueError, RuntimeError) as error:
        raise ClusterError(
            f"no Ray cluster answers at {address!r}: start one with 'ray start --head', or leave "
            f"--ray out ({(str(error).splitlines() or [type(error).__name__])[0]})."
        ) from error
    return ray


def _knock(address: str) -> None:
    """Fail at once where nothing listens at HOST:PORT; Ray itself tries for minutes.

    Raises:
        OSError: Nothing listens there.
        OverflowError: There is no such port.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isascii() and port.isdigit():
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()
