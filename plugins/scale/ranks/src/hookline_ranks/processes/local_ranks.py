"""The ranks of this machine, which share memory with their executor."""

from contextlib import ExitStack

from hookline.config import EngineConfig
from hookline.exceptions import RankError
from hookline_ranks.experts.links import ExpertLinks
from hookline_ranks.processes.links import ExecutorLinks
from hookline_ranks.processes.rank_processes import RankProcesses


class LocalRanks:
    """Implements `Ranks` by processes of this machine."""

    hosts: tuple[str, ...] = ()

    def __init__(
        self, config: EngineConfig, *, experts: ExpertLinks | None = None
    ) -> None:
        """Starts the processes.

        Args:
            config: The engine's configuration.
            experts: Its links to engines that share its experts; None without any.
        """
        parallel = config.parallel
        self._links = ExecutorLinks(parallel, experts)
        self.orders, self.answers = self._links.orders, self._links.answers
        self.expert_counts = self._links.expert_counts
        with ExitStack() as undoing:
            undoing.callback(self._links.close)
            wake = self._links.answers[parallel.output_rank].wake
            self._processes = RankProcesses(self._links.ranks, wake)
            undoing.pop_all()
        self._links.close_inherited()
        self.pids = self._processes.pids

    def find_failure(self) -> RankError | None:
        return self._processes.failure

    def close(self) -> None:
        self._processes.close()
        self._links.close()
