"""A KV connector that stores blocks in a dictionary and injects faults."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from hookline_kv_transfer.blocks import Bytes, KVBlocks
from hookline_kv_transfer.capabilities import SchedulerCapabilities, WorkerCapabilities
from hookline_kv_transfer.layout import KVLayout, TransferClosedError
from hookline_kv_transfer.messages import (
    ConnectorMetadata,
    ConnectorRequest,
    FailedTransfer,
    Load,
    PlannedStep,
    TransferResults,
)


class LoadTask(msgspec.Struct):
    """A load as the two sides exchange it, with its injected faults.

    Attributes:
        num_good: Number of blocks that are written correctly.
        is_honest: Whether the failure of the other blocks is reported, after writing
            garbage. Otherwise they are not written, but reported as complete.
    """

    transfer_id: int
    block_ids: list[int]
    block_hashes: list[bytes]
    is_async: bool
    num_good: int
    is_honest: bool = True


class SaveTask(msgspec.Struct):
    """Held blocks to save."""

    transfer_id: int
    block_ids: list[int]
    block_hashes: list[bytes]


class Tasks(msgspec.Struct):
    """The metadata of one step."""

    loads: list[LoadTask] = []
    saves: list[SaveTask] = []
    written: list[tuple[int, bytes]] = []
    evicted: list[tuple[int, bytes]] = []


@dataclass
class Faults:
    """Probabilities of faults per load, 0 to 1.

    Attributes:
        fails: Writes garbage from some block on, and reports the failure.
        hides: Writes only some blocks, but reports all as complete.
        forgets: Never reports an asynchronous load.
        late: Writes and reports long after the deadline.
        raises: Raises in the next call.
        doubles: Reports a load twice.
        late_seconds: Delay of late loads in seconds.
    """

    fails: float = 0.0
    hides: float = 0.0
    forgets: float = 0.0
    late: float = 0.0
    raises: float = 0.0
    doubles: float = 0.0
    late_seconds: float = 0.1


@dataclass
class DictStore:
    """The storage shared by the two sides of one or several connectors.

    Attributes:
        content: Content per layer, by block hash.
        is_async: Whether requests wait for their loads.
        keeps: Whether blocks of finished requests are held until they are saved.
        saves_evicted: Whether to save evicted blocks instead of full ones.
        delay_seconds: Duration of asynchronous loads.
        max_blocks: Maximum number of blocks offered to a request.
        faults: Injected faults.
        refused: Number of writes to closed blocks.
        saved: Number of held blocks saved.
    """

    content: dict[bytes, list[Bytes]] = field(default_factory=dict)
    is_async: bool = False
    keeps: bool = False
    saves_evicted: bool = False
    delay_seconds: float = 0.0
    max_blocks: int = 1 << 30
    faults: Faults = field(default_factory=Faults)
    refused: int = 0
    saved: int = 0
    source: random.Random = field(default_factory=lambda: random.Random(4))  # noqa: S311

    def happens(self, share: float) -> bool:
        return self.source.random() < share

    def maybe_raise(self) -> None:
        if self.happens(self.faults.raises):
            raise RuntimeError("as the test wants it")


class DictScheduler:
    """The scheduler side of the connector."""

    capabilities = SchedulerCapabilities()

    def __init__(self, store: DictStore, block_size: int) -> None:
        self._store = store
        self._block_size = block_size
        self._tasks = Tasks()

    def register_kv_layout(self, layout: KVLayout) -> None:
        assert layout.block_size == self._block_size

    def get_num_new_matched_tokens(
        self, request: ConnectorRequest, num_computed_tokens: int
    ) -> tuple[int, bool]:
        self._store.maybe_raise()
        store, count = self._store, 0
        computed = num_computed_tokens // self._block_size
        for block_hash in request.block_hashes[computed:]:
            if block_hash not in store.content or count == store.max_blocks:
                break
            count += 1
        return count * self._block_size, self._store.is_async and count > 0

    def update_state_after_alloc(
        self,
        request: ConnectorRequest,  # noqa: ARG002
        load: Load,
    ) -> None:
        self._store.maybe_raise()
        self._tasks.loads.append(
            LoadTask(
                load.transfer_id,
                list(load.block_ids),
                list(load.block_hashes),
                load.is_async,
                len(load.block_ids),
            )
        )

    def build_connector_meta(self, step: PlannedStep) -> ConnectorMetadata | None:
        tasks, self._tasks = self._tasks, Tasks()
        self._store.maybe_raise()
        chosen = step.evicted if self._store.saves_evicted else step.written
        blocks = [
            (each.block_id, each.block_hash)
            for each in chosen
            if each.block_hash not in self._store.content
        ]
        if self._store.saves_evicted:
            tasks.evicted = blocks
        else:
            tasks.written = blocks
        if tasks == Tasks():
            return None
        return ConnectorMetadata(msgspec.msgpack.encode(tasks))

    def request_finished(
        self, request: ConnectorRequest, block_ids: Sequence[int], transfer_id: int
    ) -> tuple[bool, Mapping[str, object] | None]:
        self._store.maybe_raise()
        if not self._store.keeps or not block_ids:
            return False, None
        hashes = request.block_hashes[: request.num_computed_tokens // self._block_size]
        self._tasks.saves.append(SaveTask(transfer_id, list(block_ids), list(hashes)))
        return True, {"request": request.request_id}

    def shutdown(self) -> None:
        """Does nothing."""


class DictWorker:
    """The worker side of the connector."""

    capabilities = WorkerCapabilities()

    def __init__(
        self, store: DictStore, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._clock = clock
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._results = TransferResults()
        self._tasks = Tasks()
        self._waiting: list[LoadTask] = []
        self._seen: dict[bytes, list[Bytes]] = {}

    def register_kv_caches(self, blocks: KVBlocks) -> None:
        self._blocks = blocks

    def start_load_kv(self, metadata: ConnectorMetadata) -> None:
        self._tasks = msgspec.msgpack.decode(metadata.payload, type=Tasks)
        for block_id, block_hash in self._tasks.evicted:
            self._store.content[block_hash] = self._read(block_id)
        self._store.maybe_raise()
        self._waiting = [task for task in self._tasks.loads if not task.is_async]
        self._seen = {}
        now = self._clock()
        for task in self._tasks.loads:
            self._decide(task)
            if task.is_async and not self._store.happens(self._store.faults.forgets):
                late = self._store.happens(self._store.faults.late)
                wait = self._store.faults.late_seconds if late else 0.0
                due = now + self._store.delay_seconds + wait
                self._due.append((due, self._loading(task)))
        for save in self._tasks.saves:
            due = now + self._store.delay_seconds
            self._due.append((due, self._saving(save)))

    def wait_for_layer_load(self, layer_index: int) -> None:
        self._store.maybe_raise()
        for task in self._waiting:
            self._write(task, layer_index)
        if layer_index == self._blocks.layout.num_layers - 1:
            for task in self._waiting:
                if not self._store.happens(self._store.faults.forgets):
                    self._say(task)

    def save_kv_layer(self, layer_index: int) -> None:
        self._store.maybe_raise()
        for block_id, block_hash in self._tasks.written:
            [content] = self._blocks.read_blocks(layer_index, [block_id])
            self._seen.setdefault(block_hash, []).append(content)

    def wait_for_save(self) -> None:
        self._store.maybe_raise()
        self._store.content.update(self._seen)
        self._seen = {}

    def get_finished(self) -> TransferResults:
        now = self._clock()
        due = [act for at, act in self._due if at <= now]
        self._due = [entry for entry in self._due if entry[0] > now]
        for act in due:
            act()
        results, self._results = self._results, TransferResults()
        self._store.maybe_raise()
        return results

    def shutdown(self) -> None:
        self._due = []

    def _read(self, block_id: int) -> list[Bytes]:
        layers = range(self._blocks.layout.num_layers)
        return [self._blocks.read_blocks(layer, [block_id])[0] for layer in layers]

    def _decide(self, task: LoadTask) -> None:
        store = self._store
        if store.happens(store.faults.fails):
            task.num_good = store.source.randrange(len(task.block_ids))
        elif store.happens(store.faults.hides):
            task.num_good = store.source.randrange(len(task.block_ids))
            task.is_honest = False

    def _write(self, task: LoadTask, layer: int) -> None:
        for place, (block_id, block_hash) in enumerate(
            zip(task.block_ids, task.block_hashes, strict=True)
        ):
            content = self._store.content[block_hash][layer]
            if place >= task.num_good:
                if not task.is_honest:
                    return
                content = ~content
            self._blocks.write_blocks(
                task.transfer_id, layer, [block_id], content[None]
            )

    def _loading(self, task: LoadTask) -> Callable[[], None]:
        def load() -> None:
            try:
                for layer in range(self._blocks.layout.num_layers):
                    self._write(task, layer)
            except TransferClosedError:
                self._store.refused += 1
            self._say(task)

        return load

    def _saving(self, task: SaveTask) -> Callable[[], None]:
        def save() -> None:
            try:
                found = [
                    self._blocks.read_blocks(
                        layer, task.block_ids, transfer_id=task.transfer_id
                    )
                    for layer in range(self._blocks.layout.num_layers)
                ]
            except TransferClosedError:
                self._store.refused += 1
                return
            self._store.saved += len(task.block_ids)
            for place, block_hash in enumerate(task.block_hashes):
                self._store.content[block_hash] = [layer[place] for layer in found]
            self._add(saved=[task.transfer_id])

        return save

    def _say(self, task: LoadTask) -> None:
        if task.is_honest and task.num_good < len(task.block_ids):
            failed = FailedTransfer(task.transfer_id, "as_wanted", task.num_good)
            self._add(failed=[failed])
            return
        self._add(loaded=[task.transfer_id])
        if self._store.happens(self._store.faults.doubles):
            self._add(loaded=[task.transfer_id])

    def _add(
        self,
        loaded: Sequence[int] = (),
        saved: Sequence[int] = (),
        failed: Sequence[FailedTransfer] = (),
    ) -> None:
        before = self._results
        self._results = TransferResults(
            loaded=[*before.loaded, *loaded],
            saved=[*before.saved, *saved],
            failed=[*before.failed, *failed],
        )
