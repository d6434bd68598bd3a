"""The worker's side: moves blocks between the KV cache and files, in threads."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial

import msgspec
import numpy as np

from hookline_kv_transfer import (
    ConnectorMetadata,
    FailedTransfer,
    TransferResults,
    WorkerCapabilities,
)
from hookline_kv_transfer.blocks import Bytes, KVBlocks
from hookline_shared_storage.options import StorageOptions
from hookline_shared_storage.reading import BlockReaders
from hookline_shared_storage.save_state import SaveState
from hookline_shared_storage.store import BlockStore
from hookline_shared_storage.tasks import LoadTask, Report, Tasks

PROMISE_SECONDS = 2.0
"""Maximum wait for promised blocks; blocks missing after it are not loaded."""

_MOST_PROMISED = 64
"""Maximum loads that wait for promised blocks; others load what is stored."""


class WorkerSide:
    """Loads blocks in several threads and saves them in one."""

    capabilities = WorkerCapabilities(works_in_ranks=True, works_on_machines=True)

    def __init__(self, options: StorageOptions) -> None:
        self._options = options
        self._tasks = Tasks()
        self._filled: Bytes | None = None
        self._lock = threading.Lock()
        self._loaded: list[int] = []
        self._failed: list[FailedTransfer] = []
        self._promised: list[tuple[float, LoadTask]] = []
        self._pending_bytes = 0
        self._num_resets = 0
        self._reported = Report()

    def register_kv_caches(self, blocks: KVBlocks) -> None:
        self._blocks = blocks
        self._store = BlockStore(self._options, blocks.layout)
        self._columns = blocks.layout.columns
        name = "hookline-shared-storage"
        self._readers = BlockReaders(
            self._store, blocks, self._options.num_threads, f"{name}-read"
        )
        self._writer = ThreadPoolExecutor(1, f"{name}-write")
        self._state = SaveState(self._options.shared_storage_path, time.monotonic)

    def start_load_kv(self, metadata: ConnectorMetadata) -> None:
        self._tasks = msgspec.msgpack.decode(metadata.payload, type=Tasks)
        if self._tasks.num_resets != self._num_resets:
            self._reset(self._tasks.num_resets)
        for block_hash in self._tasks.removals:
            self._writer.submit(self._store.remove, block_hash)
        for task in self._tasks.loads:
            if not task.is_async:
                wait(self._load(task))
            elif task.is_promised and len(self._promised) < _MOST_PROMISED:
                deadline = time.monotonic() + PROMISE_SECONDS
                self._promised.append((deadline, task))
            else:
                self._load(task)
        size = len(self._tasks.saves) * self._blocks.layout.total_bytes
        self._filled = None
        if not size or not self._state.may_try():
            return
        with self._lock:
            if self._pending_bytes + size <= self._options.max_pending_bytes:
                self._pending_bytes += size
                shape = (len(self._tasks.saves), self._blocks.layout.total_bytes)
                self._filled = np.empty(shape, np.uint8)

    def wait_for_layer_load(self, layer_index: int) -> None:
        """Synchronous loads are done before the forward pass."""

    def save_kv_layer(self, layer_index: int) -> None:
        if self._filled is not None:
            block_ids = [block_id for block_id, _ in self._tasks.saves]
            found = self._blocks.read_blocks(layer_index, block_ids)
            self._filled[:, self._columns[layer_index]] = found

    def wait_for_save(self) -> None:
        """Queues the step's blocks for writing."""
        if self._filled is not None:
            hashes = [block_hash for _, block_hash in self._tasks.saves]
            resets = self._store.num_resets
            self._writer.submit(self._save, hashes, self._filled, resets)
            self._filled = None

    def get_finished(self) -> TransferResults:
        """Returns results; also starts loads whose promised blocks are stored."""
        if self._promised:
            self._begin_promised()
        with self._lock:
            loaded, self._loaded = self._loaded, []
            failed, self._failed = self._failed, []
        report, payload = Report(self._num_resets, self._state.is_good), b""
        if report != self._reported:
            payload, self._reported = msgspec.msgpack.encode(report), report
        return TransferResults(
            loaded=loaded,
            failed=failed,
            incidents=self._state.take_incidents(),
            payload=payload,
        )

    def shutdown(self) -> None:
        """Waits for reads in progress and all pending writes."""
        self._readers.close()
        self._writer.shutdown()

    def _reset(self, num_resets: int) -> None:
        """Drops what waits to be written, and what was since the scheduler's reset."""
        self._num_resets = num_resets
        try:
            self._store.empty()
        except OSError as error:
            self._state.failed(error)
        self._writer.submit(self._store.sweep)

    def _begin_promised(self) -> None:
        now, waiting = time.monotonic(), []
        for deadline, task in self._promised:
            if now >= deadline or self._are_stored(task.block_hashes):
                self._load(task)
            else:
                waiting.append((deadline, task))
        self._promised = waiting

    def _are_stored(self, block_hashes: list[bytes]) -> bool:
        """Returns whether all blocks are stored.

        The last block is usually written last, but a shared folder may show another
        machine's files in any order.
        """
        return all(map(self._store.has, reversed(block_hashes)))

    def _load(self, task: LoadTask) -> list[Future[None]]:
        ended = partial(self._load_ended, task)
        return self._readers.submit(
            task.transfer_id, task.block_ids, task.block_hashes, ended
        )

    def _load_ended(self, task: LoadTask, good: int, reason: str) -> None:
        with self._lock:
            if good == len(task.block_ids):
                self._loaded.append(task.transfer_id)
            else:
                self._failed.append(FailedTransfer(task.transfer_id, reason, good))

    def _save(
        self, block_hashes: list[bytes], contents: Bytes, num_resets: int
    ) -> None:
        try:
            for block_hash, content in zip(block_hashes, contents, strict=True):
                if self._store.write(block_hash, content, num_resets):
                    self._state.succeeded()
        except OSError as error:
            self._state.failed(error)
        finally:
            with self._lock:
                self._pending_bytes -= contents.nbytes
