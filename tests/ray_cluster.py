"""A Ray cluster of two nodes on this machine, with a core each."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

TRIES = 3


@contextmanager
def two_nodes() -> Iterator[str]:
    """The cluster's address."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        _add(cluster, num_cpus=1, include_dashboard=False)
        _add(cluster, num_cpus=1)
        yield cluster.address
    finally:
        cluster.shutdown()


def _add(cluster: Any, **node: Any) -> None:
    """Add a node; Ray gives it 30 s by the clock to come up, which a busy machine may exceed."""
    for attempt in range(TRIES):
        try:
            cluster.add_node(**node)
            return
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
            if attempt == TRIES - 1:
                pytest.skip("no Ray cluster comes up on a machine that is as busy as this one")
