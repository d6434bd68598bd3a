"""A rank's end of the memory that it shares with its executor and the other ranks."""

from typing import TYPE_CHECKING

from hookline.config import EngineConfig
from hookline_ranks.processes.links import RankLinks
from hookline_ranks.processes.ring import RingReader, RingWriter, ring_bytes
from hookline_ranks.processes.shared_memory import SharedMemory

if TYPE_CHECKING:  # it needs torch, which a rank imports once it is told to
    from hookline_ranks.parallel_groups import ParallelGroups


class MemoryEnd:
    """Implements `RankEnd` among processes of one machine."""

    def __init__(self, links: RankLinks) -> None:
        """Attaches to the rings."""
        self.rank, self.is_output = links.rank, links.is_output
        self.ranks_here = links.world_size
        self._links = links
        orders = SharedMemory(ring_bytes(links.world_size), links.orders)
        self.orders = RingReader(
            orders, links.orders_bell, index=links.rank, readers=links.world_size
        )
        answers = SharedMemory(ring_bytes(1), links.answers)
        self.answers = RingWriter(answers, [links.answers_bell])

    def join_groups(self, config: EngineConfig) -> "ParallelGroups":
        """Implements `RankEnd`; the memory is there already."""
        from hookline_ranks.processes.groups_over_memory import groups_over_memory  # noqa: PLC0415

        return groups_over_memory(config, self._links)

    def end_step(self) -> None:
        """Does nothing: the executor reads the memory of the counts."""
