"""Counts look-ups, hits, evictions and losses of each tier."""

from collections.abc import Mapping

import msgspec

from hookline_cpu_offload.options import OffloadOptions
from hookline_cpu_offload.steps_ahead import PlannedCopies
from hookline_cpu_offload.tasks import Report
from hookline_kv_transfer import KVLayout
from hookline_metrics.transfer_stats import TierStats


class TierCounts:
    """Counts of host memory and of the disk.

    A request may be looked up many times until there is room for it. Its last look-up
    before the load, or before its end, counts.

    Attributes:
        report: The worker's last report.
    """

    def __init__(
        self, options: OffloadOptions, layout: KVLayout, num_slots: int
    ) -> None:
        self.report = Report()
        self._disk = options.disk
        self._block_size = layout.block_size
        self._block_bytes = layout.total_bytes
        self._num_slots = num_slots
        self._asked: dict[int, int] = {}
        self._queried = self._in_memory = self._on_disk = 0
        self._num_dropped = self._dropped_stores = self._num_evicted = 0

    def asked(self, request_id: int, num_blocks: int) -> None:
        """Notes a look-up of a request's blocks."""
        self._asked[request_id] = num_blocks

    def found(self, request_id: int, in_memory: int, on_disk: int) -> None:
        """Counts the last look-up, whose blocks are loaded."""
        self.ended(request_id)
        self._in_memory += in_memory
        self._on_disk += on_disk

    def ended(self, request_id: int) -> None:
        """Counts the last look-up of a request without a load."""
        self._queried += self._asked.pop(request_id, 0)

    def dropped(self, num_blocks: int) -> None:
        """Counts the blocks of one store that got no slot."""
        self._num_dropped += num_blocks
        self._dropped_stores += num_blocks > 0

    def evicted(self) -> None:
        """Counts an evicted block."""
        self._num_evicted += 1

    def stats(self, num_blocks: int, planned: PlannedCopies) -> Mapping[str, TierStats]:
        """Returns the state of both tiers.

        Args:
            num_blocks: Number of blocks in host memory.
            planned: Copies that were ordered and not reported as done.
        """
        size, report = self._block_size, self.report
        missed = self._queried - self._in_memory
        moved = report.cpu
        tiers = {
            "cpu": TierStats(
                blocks=num_blocks,
                max_blocks=self._num_slots,
                bytes=num_blocks * self._block_bytes,
                max_bytes=self._num_slots * self._block_bytes,
                hit_tokens=self._in_memory * size,
                missed_tokens=missed * size,
                evicted_blocks=self._num_evicted,
                **{
                    **msgspec.structs.asdict(moved),
                    **planned._asdict(),
                    "dropped_stores": self._dropped_stores,
                    "dropped_blocks": self._num_dropped + moved.failed_blocks,
                },
            )
        }
        if self._disk is not None:
            moved = report.disk
            tiers["disk"] = TierStats(
                blocks=report.disk_blocks,
                max_blocks=self._disk.max_bytes // self._block_bytes,
                bytes=report.disk_bytes,
                max_bytes=self._disk.max_bytes,
                hit_tokens=self._on_disk * size,
                missed_tokens=(missed - self._on_disk) * size,
                **{
                    **msgspec.structs.asdict(moved),
                    "dropped_blocks": moved.dropped_blocks + moved.failed_blocks,
                },
            )
        return tiers
