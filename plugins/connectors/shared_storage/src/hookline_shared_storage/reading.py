"""Threads that load KV blocks from files, each a piece of a load at a time."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from hookline.clock import Clock, SystemClock
from hookline_kv_transfer import TransferClosedError
from hookline_kv_transfer.blocks import Bytes, KVBlocks
from hookline_registry import Failure, isolate
from hookline_shared_storage.store import BlockStore, DamagedError

_PIECE_BYTES = 4 << 20
"""Bytes that a thread reads before it copies them, so that they stay in its cache."""

Ended = Callable[[int, str], object]
"""Receives the number of leading blocks loaded and the error; called in any thread."""


@dataclass(slots=True)
class _Load:
    """A load that several threads share.

    Attributes:
        pieces: Number of pieces that have not ended.
        good: Number of blocks before the first that failed.
        reason: Reason of the first failure; empty on success.
        is_given_up: Whether the engine has closed the load.
    """

    transfer_id: int
    block_ids: Sequence[int]
    block_hashes: Sequence[bytes]
    ended: Ended
    pieces: int
    good: int
    reason: str = ""
    is_given_up: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def failed(self, place: int, reason: str) -> None:
        with self.lock:
            if place < self.good:
                self.good, self.reason = place, reason

    def piece_ended(self) -> None:
        with self.lock:
            self.pieces -= 1
            is_over = not self.pieces and not self.is_given_up
        if is_over:
            self.ended(self.good, self.reason)


class BlockReaders:
    """Reader threads, each with a reused buffer.

    Attributes:
        busy_ns: Time spent reading and filling blocks, ns, summed over threads.
    """

    def __init__(
        self,
        store: BlockStore,
        blocks: KVBlocks,
        num_threads: int,
        name: str,
        *,
        clock: Clock | None = None,
    ) -> None:
        """Creates the readers; threads start on demand."""
        layout = blocks.layout
        self._store, self._blocks = store, blocks
        self._columns = layout.columns
        self._shape = max(1, _PIECE_BYTES // layout.total_bytes), layout.total_bytes
        self._own = threading.local()
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self.busy_ns = 0
        self._threads = ThreadPoolExecutor(num_threads, name)

    def submit(
        self,
        transfer_id: int,
        block_ids: Sequence[int],
        block_hashes: Sequence[bytes],
        ended: Ended,
    ) -> list[Future[None]]:
        """Starts reading the blocks of an open load; does not block.

        `ended` is called once, unless the load is closed before its end.
        """
        starts = range(0, len(block_ids), self._shape[0])
        load = _Load(
            transfer_id, block_ids, block_hashes, ended, len(starts), len(block_ids)
        )
        return [self._threads.submit(self._read, load, start) for start in starts]

    def close(self) -> None:
        """Waits for pieces in progress and cancels the others."""
        self._threads.shutdown(cancel_futures=True)

    def _read(self, load: _Load, start: int) -> None:
        started_at = self._clock.now()
        outcome = isolate(self._read_piece, load, start)
        with self._lock:
            self.busy_ns += self._clock.now() - started_at
        if isinstance(outcome, Failure):
            if isinstance(outcome.error, TransferClosedError):
                load.is_given_up = True
            else:
                load.failed(start, "raised")
        load.piece_ended()

    def _read_piece(self, load: _Load, start: int) -> None:
        """Reads a piece up to its first missing block and copies it to the cache."""
        memory = self._memory()
        count = 0
        for block_hash in load.block_hashes[start : start + len(memory)]:
            if load.is_given_up or start + count >= load.good:
                break
            try:
                self._store.read(block_hash, memory[count])
            except DamagedError as error:
                load.failed(start + count, error.reason)
                break
            count += 1
        if count:
            block_ids = load.block_ids[start : start + count]
            for layer, columns in enumerate(self._columns):
                source = memory[:, columns]
                self._blocks.copy_in(
                    load.transfer_id, layer, block_ids, source, range(count)
                )

    def _memory(self) -> Bytes:
        """Returns this thread's buffer, [blocks, bytes]."""
        found: Bytes | None = getattr(self._own, "memory", None)
        if found is None:
            found = self._own.memory = np.empty(self._shape, np.uint8)
        return found
