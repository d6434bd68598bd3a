"""The logger: turns cache changes into batches of events and publishes them."""

from collections.abc import Callable, Mapping, Sequence

from hookline.clock import NANOSECONDS, Clock
from hookline.events import CacheCleared, CacheEvent
from hookline.exceptions import HooklineError
from hookline.hookspecs import hookimpl
from hookline.payloads import CacheChanged, EngineFailed, EngineStarted, EngineStopped
from hookline_kv_events.batch_encoder import BatchEncoder
from hookline_kv_events.publisher import Publisher


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


class EnginePublication:
    """Publishes a batch for each step that changed one engine's prefix cache.

    Batches carry the engine's sequence numbers, so subscribers detect a lost batch
    wherever it was lost. Batch 0 and the last one are `AllBlocksCleared`.
    """

    def __init__(
        self, publisher: Publisher, clock: Clock, encoder: BatchEncoder, *, rank: int
    ) -> None:
        """Creates the publication of one engine; `rank` is the engine's index."""
        self._publisher = publisher
        self._clock = clock
        self._encoder = encoder
        self._rank = rank
        self._spec_kind = ""
        self._last = 0
        self._lost = 0

    def start(self, started: EngineStarted) -> None:
        self._spec_kind = started.facts.model.kv_cache_spec_kind
        self._publish(0, [CacheCleared()])

    def change(self, changed: CacheChanged) -> None:
        """Publishes the changes; raises `LostBatchesError` once after an overflow."""
        changes = changed.changes
        self._publish(changes.sequence, changes.events)

    def clear(self) -> None:
        """Tells that nothing is cached any more."""
        self._publish(self._last + 1, [CacheCleared()])

    def close(self) -> None:
        """Likewise, for good."""
        try:
            self.clear()
        finally:
            self._publisher.close()

    def _publish(self, sequence: int, events: Sequence[CacheEvent]) -> None:
        self._last = sequence
        now = self._clock.wall() / NANOSECONDS
        batch = self._encoder.encode(now, events, self._rank, self._spec_kind)
        self._publisher.publish(sequence, batch)
        lost, self._lost = (
            self._publisher.dropped_batches - self._lost,
            (self._publisher.dropped_batches),
        )
        if lost:
            raise LostBatchesError(lost, self._lost)


class KVEventsLogger:
    """Publishes the changes of each engine's prefix cache at an address of its own."""

    def __init__(
        self,
        publications: Mapping[int, EnginePublication],
        publish: Callable[[int], EnginePublication],
    ) -> None:
        """Creates the logger.

        Args:
            publications: Those of the first engines, by their indices.
            publish: Opens that of an engine that joins later; it may raise
                `ConfigError`.
        """
        self._publications = dict(publications)
        self._publish = publish

    @hookimpl
    def engine_started(self, started: EngineStarted) -> None:
        index = started.facts.engine_index
        if index not in self._publications:
            self._publications[index] = self._publish(index)
        self._publications[index].start(started)

    @hookimpl
    def cache_changed(self, changed: CacheChanged) -> None:
        if (publication := self._publications.get(changed.engine_index)) is not None:
            publication.change(changed)

    @hookimpl
    def engine_stopped(self, stopped: EngineStopped) -> None:
        if publication := self._publications.pop(stopped.engine_index, None):
            publication.close()

    @hookimpl
    def engine_failed(self, failed: EngineFailed) -> None:
        if (publication := self._publications.get(failed.engine_index)) is None:
            return
        if failed.is_final:
            del self._publications[failed.engine_index]
            publication.close()
        else:
            publication.clear()
