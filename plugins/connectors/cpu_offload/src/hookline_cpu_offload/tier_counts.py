"""Counts look-ups, hits, evictions and losses of each tier."""

from collections.abc import Mapping

from hookline.kv_transfer import KVLayout
from hookline.stats import TierStats
from hookline_cpu_offload.options import OffloadOptions
from hookline_cpu_offload.tasks import Report


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
        self._num_dropped = self._num_evicted = 0

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
        """Counts blocks that got no slot."""
        self._num_dropped += num_blocks

    def evicted(self) -> None:
        """Counts an evicted block."""
        self._num_evicted += 1

    def stats(self, num_blocks: int) -> Mapping[str, TierStats]:
        """Returns the state of both tiers; `num_blocks` are in host memory."""
        size, report = self._block_size, self.report
        missed = self._queried - self._in_memory
        tiers = {
            "cpu": TierStats(
                blocks=num_blocks,
                max_blocks=self._num_slots,
                bytes=num_blocks * self._block_bytes,
                max_bytes=self._num_slots * self._block_bytes,
                hit_tokens=self._in_memory * size,
                missed_tokens=missed * size,
                in_bytes=report.taken_bytes,
                out_bytes=report.given_bytes,
                evicted_blocks=self._num_evicted,
                dropped_blocks=self._num_dropped,
                in_ns=report.taken_ns,
                out_ns=report.given_ns,
            )
        }
        if self._disk is not None:
            tiers["disk"] = TierStats(
                blocks=report.disk_blocks,
                max_blocks=self._disk.max_bytes // self._block_bytes,
                bytes=report.disk_bytes,
                max_bytes=self._disk.max_bytes,
                hit_tokens=self._on_disk * size,
                missed_tokens=(missed - self._on_disk) * size,
                in_bytes=report.disk_written_bytes,
                out_bytes=report.disk_read_bytes,
                dropped_blocks=report.disk_dropped_blocks,
                in_ns=report.disk_written_ns,
                out_ns=report.disk_read_ns,
            )
        return tiers
