"""Runs a command beside a Ray cluster of two nodes on this machine.

`python -m hookline_ray.two_nodes COMMAND…`; `RAY_ADDRESS` names the cluster to the
command. The cluster ends with it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from ray.cluster_utils import Cluster

OBJECT_STORE_BYTES = 80_000_000


@contextmanager
def cluster_of(num_nodes: int, *, cpus: int = 1) -> Iterator[Cluster]:
    """Starts a cluster of nodes on this machine; they end with the context.

    Args:
        num_nodes: Number of nodes; the first one is the head.
        cpus: CPUs that each has to give.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    cluster = Cluster()
    try:
        for _ in range(num_nodes):
            add_node(cluster, cpus=cpus)
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.shutdown()


def add_node(cluster: Cluster, *, cpus: int = 1) -> object:
    """Adds a node to a cluster, and returns it."""
    node: object = cluster.add_node(
        num_cpus=cpus, object_store_memory=OBJECT_STORE_BYTES, include_dashboard=False
    )
    return node


def main(command: Sequence[str]) -> int:
    """Returns the command's exit status."""
    with cluster_of(2) as cluster:
        environment = {**os.environ, "RAY_ADDRESS": cluster.address}
        process = subprocess.Popen(list(command), env=environment)  # noqa: S603
        while True:
            with suppress(KeyboardInterrupt):  # the command has got the signal, too
                return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
