"""What the worker is to be told of transfers, and what it must confirm."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hookline.kv_cache import BlockPool
from hookline.kv_transfer.messages import Load
from hookline.kv_transfer.orders import Save


@dataclass(slots=True)
class Outbox:
    """Numbers transfers, and gathers the orders of the next plan.

    Attributes:
        pool: Of all blocks.
        loads: To begin.
        saves: Likewise.
        cancelled: To be closed.
        closing: Blocks of transfers that were given up, by number. They stay until the
            worker says that nobody touches them any more.
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

    def give_up(self, transfer_id: int, held: Sequence[int]) -> None:
        """Takes over the blocks of a transfer that nobody waits for any longer."""
        self.cancelled.append(transfer_id)
        self.closing[transfer_id] = held

    def confirmed(self, transfer_id: int) -> None:
        """It is closed; what was confirmed before needs not be again."""
        self.pool.free(self.closing.pop(transfer_id, ()))

    def take(self) -> tuple[list[Load], list[Save], list[int]]:
        """Loads, saves and cancelled transfers since the last call."""
        taken = self.loads, self.saves, self.cancelled
        self.loads, self.saves, self.cancelled = [], [], []
        return taken
