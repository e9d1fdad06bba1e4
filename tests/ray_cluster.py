"""A Ray cluster of two nodes on this machine, with a core each."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def two_nodes() -> Iterator[str]:
    """The cluster's address. On a busy machine its parts take a minute and more to find each other.

    The wait is read when Ray is loaded, here and in the processes that it starts.
    """
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=1)
        yield cluster.address
    finally:
        cluster.shutdown()
