"""What turns an engine's changes into the bytes of a batch, in either encoding."""

from collections.abc import Sequence
from typing import Protocol

from hookline.events import CacheEvent
from hookline_kv_events.config import KVEventsEncoding
from hookline_kv_events.map_wire import MapEncoder
from hookline_kv_events.wire import ArrayEncoder


class BatchEncoder(Protocol):
    """Encodes the batches of one engine."""

    def encode(
        self, ts: float, events: Sequence[CacheEvent], rank: int, spec_kind: str
    ) -> bytes:
        """Returns a batch in msgpack; changes nothing.

        Args:
            ts: Seconds since the epoch.
            events: The changes, in order.
            rank: Index of the engine.
            spec_kind: `EngineFacts.model.kv_cache_spec_kind`.
        """
        ...


def encoder_of(encoding: KVEventsEncoding, block_size: int) -> BatchEncoder:
    """Returns the encoder of a configuration; blocks have `block_size` tokens."""
    if encoding == KVEventsEncoding.MAP:
        return MapEncoder(block_size)
    return ArrayEncoder(block_size)
