"""The third tier: files of shared storage, written and read in threads of its own."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from hookline.kv_transfer import KVLayout
from hookline.kv_transfer.blocks import Bytes, KVBlocks
from hookline_cpu_offload.options import DiskOptions
from hookline_shared_storage import BlockReaders, BlockStore, StorageOptions

_READERS = 2


def open_store(options: DiskOptions, layout: KVLayout) -> BlockStore:
    """The folder's blocks of this layout; others' engines may use it, too.

    Raises:
        OSError: It cannot be made.
    """
    storage = StorageOptions(
        shared_storage_path=options.path, max_bytes=options.max_bytes
    )
    return BlockStore(storage, layout)


class Disk:
    """What the worker's side writes and reads.

    Attributes:
        written_bytes: Of blocks.
        read_bytes: Likewise.
        dropped_blocks: That were not written: too many waited, or the disk is full.
    """

    def __init__(self, options: DiskOptions, blocks: KVBlocks) -> None:
        """Starts its threads."""
        self._store = open_store(options, blocks.layout)
        self._block_bytes = blocks.layout.total_bytes
        self._most_pending = options.max_pending_bytes
        self._pending = 0
        self._lock = threading.Lock()
        self._error: OSError | None = None
        self.written_bytes = self.read_bytes = self.dropped_blocks = 0
        name = "hookline-cpu-offload"
        self._readers = BlockReaders(self._store, blocks, _READERS, f"{name}-read")
        self._writer = ThreadPoolExecutor(1, f"{name}-write")
        self._writer.submit(self._store.shrink)  # so that its size is known

    @property
    def num_blocks(self) -> int:
        return self._store.num_files

    @property
    def num_bytes(self) -> int:
        return self._store.num_bytes

    def write(
        self, block_hashes: Sequence[bytes], copy: Callable[[], Bytes], num_bytes: int
    ) -> None:
        """Has blocks written.

        Args:
            block_hashes: Which.
            copy: Makes [blocks, bytes of all layers], unless too many wait.
            num_bytes: Of the copy.
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
        """Has blocks filled that belong to an open load.

        Args:
            transfer_id: The load.
            block_ids: Some of its blocks.
            block_hashes: What is to be in them.
            ended: Told how many blocks were loaded from the first, and why no more;
                in a thread of the disk's, unless the load is closed before.
        """

        def counted(good: int, reason: str) -> None:
            with self._lock:
                self.read_bytes += good * self._block_bytes
            ended(good, reason)

        self._readers.submit(transfer_id, block_ids, block_hashes, counted)

    def take_error(self) -> OSError | None:
        """Of a write since the last call."""
        error, self._error = self._error, None
        return error

    def close(self) -> None:
        """Waits for what is being read, and for all that is to be written."""
        self._readers.close()
        self._writer.shutdown()

    def _write(self, block_hashes: list[bytes], contents: Bytes) -> None:
        done = 0
        try:
            for block_hash, content in zip(block_hashes, contents, strict=True):
                self._store.write(block_hash, content)
                done += 1
        except OSError as error:
            self._error = error
        finally:
            with self._lock:
                self._pending -= contents.nbytes
                self.written_bytes += done * contents.shape[1]
                self.dropped_blocks += len(block_hashes) - done
