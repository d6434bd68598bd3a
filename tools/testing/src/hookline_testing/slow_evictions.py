"""Evictions from the prefix cache that take time on a virtual clock."""

from hookline.clock import VirtualClock
from hookline.request import Request


class SlowEvictions:
    """A listener of a block pool; it advances the clock with each evicted block."""

    def __init__(self, clock: VirtualClock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds

    def block_cached(self, block_id: int, request: Request, index: int) -> None:
        """Takes no time."""

    def block_evicted(
        self,
        block_id: int,  # noqa: ARG002
        block_hash: bytes,  # noqa: ARG002
    ) -> None:
        self._clock.sleep(self._seconds)

    def block_distrusted(self, block_id: int, block_hash: bytes) -> None:
        """Takes no time."""

    def cache_reset(self) -> None:
        """Takes no time."""
