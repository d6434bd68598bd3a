"""The logger: turns cache changes into batches of events and publishes them."""

import msgspec

from hookline.clock import NANOSECONDS, Clock
from hookline.exceptions import HooklineError
from hookline.hookspecs import hookimpl
from hookline.payloads import CacheChanged, EngineFailed, EngineStarted, EngineStopped
from hookline_kv_events.publisher import Publisher
from hookline_kv_events.wire import (
    AllBlocksCleared,
    KVEventBatch,
    WireEvent,
    wire_event,
)


class LostBatchesError(HooklineError):
    """The queue of batches overflowed and its oldest batches were dropped.

    Attributes:
        batches: Number of batches dropped since the last error.
        batches_in_all: Number of batches dropped since the start.
    """

    def __init__(self, batches: int, batches_in_all: int) -> None:
        super().__init__(
            f"{batches} batches of KV events lost, {batches_in_all} in all"
        )
        self.batches = batches
        self.batches_in_all = batches_in_all


class KVEventsLogger:
    """Publishes a batch for each step that changed the prefix cache.

    Batches carry the engine's sequence numbers, so subscribers detect a lost batch
    wherever it was lost. Batch 0 and the last one are `AllBlocksCleared`.
    """

    def __init__(
        self, publisher: Publisher, clock: Clock, *, block_size: int, rank: int
    ) -> None:
        """Creates the logger of one engine; `rank` is the engine's index."""
        self._publisher = publisher
        self._clock = clock
        self._block_size = block_size
        self._rank = rank
        self._encoder = msgspec.msgpack.Encoder()
        self._last = 0
        self._lost = 0

    @hookimpl
    def engine_started(self, started: EngineStarted) -> None:
        del started
        self._publish(0, [AllBlocksCleared()])

    @hookimpl
    def cache_changed(self, changed: CacheChanged) -> None:
        """Publishes the changes; raises `LostBatchesError` once after an overflow."""
        changes = changed.changes
        events = [wire_event(event, self._block_size) for event in changes.events]
        self._publish(changes.sequence, events)

    @hookimpl
    def engine_stopped(self, stopped: EngineStopped) -> None:
        del stopped
        self._end()

    @hookimpl
    def engine_failed(self, failed: EngineFailed) -> None:
        if failed.is_final:
            self._end()
        else:
            self._publish(self._last + 1, [AllBlocksCleared()])

    def _end(self) -> None:
        try:
            self._publish(self._last + 1, [AllBlocksCleared()])
        finally:
            self._publisher.close()

    def _publish(self, sequence: int, events: list[WireEvent]) -> None:
        self._last = sequence
        batch = KVEventBatch(
            self._clock.wall() / NANOSECONDS,
            events,
            self._rank,
        )
        self._publisher.publish(sequence, self._encoder.encode(batch))
        lost, self._lost = (
            self._publisher.dropped_batches - self._lost,
            (self._publisher.dropped_batches),
        )
        if lost:
            raise LostBatchesError(lost, self._lost)
