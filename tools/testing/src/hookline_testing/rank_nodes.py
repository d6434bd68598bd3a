"""Ranks that are connected as on several machines, all of them on this one.

`CONNECTED` is the executor; `PluginSite` can install it under a name.
"""

import msgspec

from hookline.config import EngineConfig
from hookline.engine.worker.executor import Executor, ExecutorContext
from hookline.engine_setup.executor_factory import RUNS_MODEL, ExecutorFactory
from hookline_cluster.ranks.connected_ranks import ConnectedRanks, RankEnded
from hookline_cluster.ranks.rank_messages import RankEnlistment
from hookline_processes.supervised import Supervised
from hookline_ranks.experts.lockstep_executor import counting
from hookline_ranks.processes.executor import RanksExecutor

_MODULE = "hookline_cluster.ranks.connected_rank_process"
_GRACE_SECONDS = 2.0


class LoopbackNodes:
    """Implements `RankNodes` by processes of this machine.

    Attributes:
        tells_ends: Whether it tells that a process has ended, as a machine does that
            still lives.
        running: The processes, by rank.
    """

    address = "127.0.0.1"

    def __init__(self, *, tells_ends: bool = True) -> None:
        self.tells_ends = tells_ends
        self.running: dict[int, Supervised] = {}

    def start(self, enlisted: RankEnlistment) -> None:
        """Implements `RankNodes`."""
        process = Supervised(_MODULE, [enlisted.rank], name=f"rank {enlisted.rank}")
        addressed = msgspec.structs.replace(enlisted, address=self.address)
        process.send_bytes(addressed.packed())
        self.running[enlisted.rank] = process

    def take_end(self) -> RankEnded | None:
        """Implements `RankNodes`."""
        for rank, process in self.running.items() if self.tells_ends else ():
            if (reason := process.end_reason) is not None:
                self._end(rank)
                return RankEnded(rank, reason)
        return None

    def close(self) -> None:
        """Implements `RankNodes`."""
        for process in self.running.values():
            process.hang_up()
        for rank in list(self.running):
            self._end(rank)

    def _end(self, rank: int) -> None:
        process = self.running.pop(rank)
        process.close(_GRACE_SECONDS)


def _start(config: EngineConfig) -> ConnectedRanks:
    return ConnectedRanks(config, LoopbackNodes())


def _create(context: ExecutorContext) -> Executor:
    return counting(context.config, RanksExecutor(context, _start))


CONNECTED = ExecutorFactory(_create, RUNS_MODEL, has_processes=True)
