"""Transfer orders for the worker, and cancelled transfers that it must confirm."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hookline.engine.kv_cache.block_pool import BlockPool
from hookline_kv_transfer.messages import Load
from hookline_kv_transfer.orders import Save


@dataclass(slots=True)
class Outbox:
    """Numbers transfers and collects the orders of the next plan.

    Attributes:
        pool: The KV cache's blocks.
        loads: Loads to begin.
        saves: Saves to begin.
        cancelled: Ids of transfers to close.
        closing: Blocks of cancelled transfers by id; they stay referenced until the
            worker confirms that it no longer accesses them.
    """

    pool: BlockPool
    loads: list[Load] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    closing: dict[int, Sequence[int]] = field(default_factory=dict)
    _last_id: int = 0

    def new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def cancel(self, transfer_id: int, held: Sequence[int]) -> None:
        """Cancels a transfer and takes over its blocks."""
        self.cancelled.append(transfer_id)
        self.closing[transfer_id] = held

    def confirmed(self, transfer_id: int) -> None:
        """Frees the blocks of a cancelled transfer; may be called twice."""
        self.pool.free(self.closing.pop(transfer_id, ()))

    def drain(self) -> tuple[list[Load], list[Save], list[int]]:
        """Returns loads, saves and cancelled transfers since the last call."""
        taken = self.loads, self.saves, self.cancelled
        self.loads, self.saves, self.cancelled = [], [], []
        return taken
