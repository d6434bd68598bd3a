"""Counts what moves into a tier and out of it; the worker's side of its statistics."""

import threading
from collections import deque
from typing import Literal

import msgspec

from hookline.clock import Clock
from hookline_cpu_offload.tasks import Moved
from hookline_metrics.connector_events import MOST_EVENTS, TierMove

Direction = Literal["in", "out"]


class TierMoves:
    """The moves of one tier: in progress, ended, and in total. Thread-safe."""

    def __init__(self, tier: str, block_bytes: int, clock: Clock) -> None:
        self._tier = tier
        self._block_bytes = block_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._totals = Moved()
        self._ended: deque[TierMove] = deque(maxlen=MOST_EVENTS)

    def count_ordered(self, direction: Direction, num_blocks: int) -> int:
        """Notes the order of a move; returns its time, ns."""
        with self._lock:
            self._add_in_progress(direction, 1, num_blocks)
        return self._clock.now()

    def count_ended(
        self,
        direction: Direction,
        num_blocks: int,
        *,
        moved: int,
        ordered_at: int,
        busy_ns: int | None = None,
        is_good: bool | None = None,
    ) -> None:
        """Counts a move that has ended, well or not.

        Args:
            direction: `in` for a store.
            num_blocks: Number of blocks ordered.
            moved: How many of them were moved.
            ordered_at: Time of the order, ns.
            busy_ns: Time spent moving; None if nothing else was done since the order.
            is_good: Whether it succeeded; None if that needs no more than all blocks.
        """
        took = self._clock.now() - ordered_at
        num_bytes = moved * self._block_bytes
        good = moved == num_blocks if is_good is None else is_good
        event = TierMove(self._tier, direction, num_bytes, took, good)
        with self._lock:
            totals = self._totals
            self._add_in_progress(direction, -1, -num_blocks)
            if direction == "in":
                totals.in_bytes += num_bytes
                totals.in_ns += took if busy_ns is None else busy_ns
                totals.failed_stores += not good
                totals.failed_blocks += num_blocks - moved
            else:
                totals.out_bytes += num_bytes
                totals.out_ns += took if busy_ns is None else busy_ns
                totals.failed_loads += not good
            self._ended.append(event)

    def drop(self, num_blocks: int) -> None:
        """Counts a store that is not made, as there is no room for it."""
        with self._lock:
            self._totals.dropped_stores += 1
            self._totals.dropped_blocks += num_blocks

    def collect(self) -> tuple[Moved, list[TierMove]]:
        """Returns the totals, and the moves that have ended since the last call."""
        with self._lock:
            ended = list(self._ended)
            self._ended.clear()
            return msgspec.structs.replace(self._totals), ended

    def _add_in_progress(self, direction: Direction, moves: int, blocks: int) -> None:
        if direction == "in":
            self._totals.storing += moves
            self._totals.storing_blocks += blocks
        else:
            self._totals.loading += moves
            self._totals.loading_blocks += blocks
