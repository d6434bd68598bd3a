"""The disk tier: files in shared_storage's format, read and written by threads."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from hookline.clock import Clock
from hookline.kv_transfer import KVLayout
from hookline.kv_transfer.blocks import Bytes, KVBlocks
from hookline_cpu_offload.options import DiskOptions
from hookline_shared_storage import BlockReaders, BlockStore, StorageOptions

_READERS = 2


def open_store(options: DiskOptions, layout: KVLayout) -> BlockStore:
    """Opens the folder's blocks of this layout; other engines may share it.

    Raises:
        OSError: The folder cannot be created.
    """
    storage = StorageOptions(
        shared_storage_path=options.path, max_bytes=options.max_bytes
    )
    return BlockStore(storage, layout)


class Disk:
    """Writes and reads blocks for the worker's side.

    Attributes:
        written_bytes: Bytes of written blocks.
        read_bytes: Bytes of read blocks.
        dropped_blocks: Blocks not written, as too many waited or the disk was full.
        written_ns: Time spent writing, ns.
    """

    def __init__(self, options: DiskOptions, blocks: KVBlocks, clock: Clock) -> None:
        """Starts its threads."""
        self._store = open_store(options, blocks.layout)
        self._block_bytes = blocks.layout.total_bytes
        self._most_pending = options.max_pending_bytes
        self._pending = 0
        self._lock = threading.Lock()
        self._error: OSError | None = None
        self._clock = clock
        self.written_bytes = self.read_bytes = self.dropped_blocks = 0
        self.written_ns = 0
        name = "hookline-cpu-offload"
        self._readers = BlockReaders(
            self._store, blocks, _READERS, f"{name}-read", clock=clock
        )
        self._writer = ThreadPoolExecutor(1, f"{name}-write")
        self._writer.submit(self._store.shrink)  # so that its size is known

    @property
    def num_blocks(self) -> int:
        return self._store.num_files

    @property
    def num_bytes(self) -> int:
        return self._store.num_bytes

    @property
    def read_ns(self) -> int:
        """Time spent reading and filling blocks, ns, summed over threads."""
        return self._readers.busy_ns

    def write(
        self, block_hashes: Sequence[bytes], copy: Callable[[], Bytes], num_bytes: int
    ) -> None:
        """Writes blocks in the background.

        Args:
            block_hashes: Hashes of the blocks.
            copy: Returns [blocks, bytes of all layers]; not called if too many wait.
            num_bytes: Size of the copy.
        """
        with self._lock:
            if self._pending + num_bytes > self._most_pending:
                self.dropped_blocks += len(block_hashes)
                return
            self._pending += num_bytes
        self._writer.submit(self._write, list(block_hashes), copy())

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

        def counted(good: int, reason: str) -> None:
            with self._lock:
                self.read_bytes += good * self._block_bytes
            ended(good, reason)

        self._readers.submit(transfer_id, block_ids, block_hashes, counted)

    def take_error(self) -> OSError | None:
        """Returns an error of a write since the last call."""
        error, self._error = self._error, None
        return error

    def close(self) -> None:
        """Waits for running reads, and for all pending writes."""
        self._readers.close()
        self._writer.shutdown()

    def _write(self, block_hashes: list[bytes], contents: Bytes) -> None:
        done, started_at = 0, self._clock.now()
        try:
            for block_hash, content in zip(block_hashes, contents, strict=True):
                self._store.write(block_hash, content)
                done += 1
        except OSError as error:
            self._error = error
        finally:
            with self._lock:
                self._pending -= contents.nbytes
                self.written_ns += self._clock.now() - started_at
                self.written_bytes += done * contents.shape[1]
                self.dropped_blocks += len(block_hashes) - done
