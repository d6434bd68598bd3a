"""Groups of gloo whose ranks are threads of one process, over its loopback."""

from concurrent.futures import ThreadPoolExecutor

from torch._C._distributed_c10d import ProcessGroup

from hookline_ranks.processes.gloo import host_store, meet, reach_store
from hookline_ranks.processes.gloo_group import GlooGroup

LOOPBACK = "127.0.0.1"


def process_groups(size: int, deadline_seconds: float = 60.0) -> list[ProcessGroup]:
    """Returns each rank's side of a new group, whose store is closed already."""
    hosted = host_store(LOOPBACK, deadline_seconds)

    def join(rank: int) -> ProcessGroup:
        return meet(
            reach_store(LOOPBACK, hosted.port, deadline_seconds),
            "all",
            rank,
            size,
            address=LOOPBACK,
            deadline_seconds=deadline_seconds,
        )

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(join, range(size)))


def gloo_groups(size: int, deadline_seconds: float = 60.0) -> list[GlooGroup]:
    """Returns each rank's side of a new group, as models call it."""
    groups = process_groups(size, deadline_seconds)
    return [GlooGroup(each, rank) for rank, each in enumerate(groups)]
