"""The disk tier: files in shared_storage's format, read and written by threads."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from hookline.clock import NANOSECONDS, Clock
from hookline_cpu_offload.moves import TierMoves
from hookline_cpu_offload.options import DiskOptions
from hookline_cpu_offload.tasks import Moved
from hookline_kv_transfer import KVLayout
from hookline_kv_transfer.blocks import Bytes, KVBlocks
from hookline_metrics.connector_events import TierMove
from hookline_shared_storage import (
    BlockReaders,
    BlockStore,
    RankStores,
    SaveState,
    StorageOptions,
)

_READERS = 2


def open_stores(options: DiskOptions, layout: KVLayout) -> RankStores:
    """Opens the folder's blocks of all ranks, to look blocks up.

    Args:
        options: Where they are.
        layout: The scheduler's layout.

    Raises:
        OSError: The folder cannot be created.
    """
    return RankStores(_storage(options), layout)


def _storage(options: DiskOptions) -> StorageOptions:
    return StorageOptions(shared_storage_path=options.path, max_bytes=options.max_bytes)


class Disk:
    """Writes and reads blocks for the worker's side."""

    def __init__(self, options: DiskOptions, blocks: KVBlocks, clock: Clock) -> None:
        """Starts its threads."""
        self._store = BlockStore(_storage(options), blocks.layout)
        self._moves = TierMoves("disk", blocks.layout.total_bytes, clock)
        self._most_pending = options.max_pending_bytes
        self._pending = 0
        self._lock = threading.Lock()
        self._state = SaveState(options.path, lambda: clock.now() / NANOSECONDS)
        self._clock = clock
        name = "hookline-cpu-offload"
        self._readers = BlockReaders(
            self._store, blocks, _READERS, f"{name}-read", clock=clock
        )
        self._writer = ThreadPoolExecutor(1, f"{name}-write")
        self._writer.submit(self._store.sweep)  # so that its size is known

    @property
    def num_blocks(self) -> int:
        return self._store.num_files

    @property
    def num_bytes(self) -> int:
        return self._store.num_bytes

    def take_moves(self) -> tuple[Moved, list[TierMove]]:
        """Returns totals, and the writes and reads that ended since the last call."""
        totals, ended = self._moves.collect()
        totals.out_ns = self._readers.busy_ns
        return totals, ended

    def write(
        self, block_hashes: Sequence[bytes], copy: Callable[[], Bytes], num_bytes: int
    ) -> None:
        """Writes blocks in the background.

        Args:
            block_hashes: Hashes of the blocks.
            copy: Returns [blocks, bytes of all layers]; not called if too many wait,
                or if nothing can be written.
            num_bytes: Size of the copy.
        """
        if not self._state.may_try():
            began_at = self._moves.count_ordered("in", len(block_hashes))
            self._moves.count_ended(
                "in", len(block_hashes), moved=0, ordered_at=began_at, busy_ns=0
            )
            return
        with self._lock:
            if self._pending + num_bytes > self._most_pending:
                self._moves.drop(len(block_hashes))
                return
            self._pending += num_bytes
        ordered_at = self._moves.count_ordered("in", len(block_hashes))
        resets = self._store.num_resets
        self._writer.submit(self._write, list(block_hashes), copy(), ordered_at, resets)

    def empty(self) -> None:
        """Drops what waits to be written, and removes what is there."""
        try:
            self._store.empty()
        except OSError as error:
            self._state.failed(error)
        self._writer.submit(self._store.sweep)

    def remove(self, block_hashes: Sequence[bytes]) -> None:
        """Removes blocks in the background, after what is being written."""
        for block_hash in block_hashes:
            self._writer.submit(self._store.remove, block_hash)

    def read(
        self,
        transfer_id: int,
        block_ids: Sequence[int],
        block_hashes: Sequence[bytes],
        ended: Callable[[int, str], object],
    ) -> None:
        """Fills blocks of an open load in the background.

        Args:
            transfer_id: The load.
            block_ids: Some of its blocks.
            block_hashes: Hashes of their content.
            ended: Called in one of the disk's threads with the number of leading blocks
                that were loaded, and the reason why no more; not called if the load is
                closed before.
        """
        read = _Read(self._moves, len(block_ids))

        def counted(good: int, reason: str) -> None:
            read.complete(good)
            ended(good, reason)

        pieces = self._readers.submit(transfer_id, block_ids, block_hashes, counted)
        read.watch(pieces)

    def take_incidents(self) -> dict[str, int]:
        """Returns failures of writes by reason since the last call."""
        return self._state.take_incidents()

    def close(self) -> None:
        """Waits for running reads, and for all pending writes."""
        self._readers.close()
        self._writer.shutdown()

    def _write(
        self,
        block_hashes: list[bytes],
        contents: Bytes,
        ordered_at: int,
        num_resets: int,
    ) -> None:
        done, started_at = 0, self._clock.now()
        try:
            for block_hash, content in zip(block_hashes, contents, strict=True):
                if self._store.write(block_hash, content, num_resets):
                    self._state.succeeded()
                done += 1
        except OSError as error:
            self._state.failed(error)
        finally:
            with self._lock:
                self._pending -= contents.nbytes
            self._moves.count_ended(
                "in",
                len(block_hashes),
                moved=done,
                ordered_at=ordered_at,
                busy_ns=self._clock.now() - started_at,
            )


class _Read:
    """A read in progress, which ends once: with its load, or with its last piece."""

    def __init__(self, moves: TierMoves, num_blocks: int) -> None:
        self._moves = moves
        self._num_blocks = num_blocks
        self._lock = threading.Lock()
        self._has_ended = False
        self._pieces = 0
        self._ordered_at = moves.count_ordered("out", num_blocks)

    def watch(self, pieces: Sequence[Future[None]]) -> None:
        """Has the last piece end the read if its load was closed before."""
        self._pieces = len(pieces)
        for piece in pieces:
            piece.add_done_callback(self._piece_ended)

    def complete(self, num_read: int) -> None:
        """Counts the leading blocks that were read, unless it has ended."""
        with self._lock:
            has_ended, self._has_ended = self._has_ended, True
        if not has_ended:
            self._moves.count_ended(
                "out",
                self._num_blocks,
                moved=num_read,
                ordered_at=self._ordered_at,
                busy_ns=0,
            )

    def _piece_ended(self, piece: Future[None]) -> None:
        del piece
        with self._lock:
            self._pieces -= 1
            is_last = not self._pieces
        if is_last:
            self.complete(0)
