"""Wire format of events since vLLM 0.24: maps by field name, the tag under `type`.

Fields without a value are left out, and the batch is still an array, as in vLLM;
llm-d's reader accepts no other. An event's fields are those of vLLM 0.33.
"""

from collections.abc import Sequence

import msgspec

from hookline.events import BlocksRemoved, BlocksStored, CacheCleared, CacheEvent
from hookline_kv_events.wire import MEDIUM, extra_keys_of, number_of

ONLY_GROUP = 0
"""Index of the group of layers whose blocks are stored and evicted together: all."""


class KVCacheEvent(msgspec.Struct, omit_defaults=True, gc=False, tag=True):
    """Base of all events."""


class BlockStored(KVCacheEvent):
    """Full blocks entered the prefix cache; a hash covers the prefix up to its block.

    Attributes:
        block_hashes: Hashes of the blocks, in order.
        parent_block_hash: Hash of the preceding block; None at the start of a prompt.
        token_ids: Token ids, `block_size` per block.
        block_size: Tokens per block.
        lora_id: Kept for older readers; always None.
        medium: Medium that holds the blocks.
        lora_name: Name of the LoRA adapter of the blocks.
        extra_keys: Further inputs of each hash: a prompt's cache salt for its first
            block. None without any.
        group_idx: Group of layers that the blocks belong to.
        kv_cache_spec_kind: What the group's blocks hold: `full_attention`, or
            `mla_attention` for latents.
        kv_cache_spec_sliding_window: Tokens that the group keeps; None keeps all.
        locality: Place of a storage tier, `LOCAL` or `REMOTE`; None for the cache that
            the model reads.
        ownership: Storage tier that the blocks belong to; None for the same cache.
        session_id: Session of the request that stored them.
    """

    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[tuple[str, ...] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = None
    ownership: str | None = None
    session_id: str | None = None


class BlockRemoved(KVCacheEvent):
    """Blocks were evicted from the prefix cache; fields as of `BlockStored`."""

    block_hashes: list[int]
    medium: str | None
    group_idx: int | None = None
    locality: str | None = None
    ownership: str | None = None


class AllBlocksCleared(KVCacheEvent):
    """The prefix cache was cleared."""


MapEvent = BlockStored | BlockRemoved | AllBlocksCleared


class KVEventBatch(msgspec.Struct, array_like=True, gc=False):
    """The events of one step.

    Attributes:
        ts: Seconds since the epoch.
        events: Events in order.
        data_parallel_rank: Index of the engine.
    """

    ts: float
    events: list[MapEvent]
    data_parallel_rank: int | None = None


class MapEncoder:
    """Encodes batches whose events are maps."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._encoder = msgspec.msgpack.Encoder()

    def encode(
        self, ts: float, events: Sequence[CacheEvent], rank: int, spec_kind: str
    ) -> bytes:
        """Returns a batch; see `BatchEncoder`."""
        found = [map_event(each, self._block_size, spec_kind) for each in events]
        return self._encoder.encode(KVEventBatch(ts, found, rank))


def map_event(event: CacheEvent, block_size: int, spec_kind: str) -> MapEvent:
    """Converts an engine's event to the wire format."""
    match event:
        case CacheCleared():
            return AllBlocksCleared()
        case BlocksRemoved():
            return BlockRemoved(
                block_hashes=list(map(number_of, event.block_hashes)),
                medium=MEDIUM,
                group_idx=ONLY_GROUP,
            )
        case BlocksStored():
            parent = event.parent_hash
            return BlockStored(
                block_hashes=list(map(number_of, event.block_hashes)),
                parent_block_hash=None if parent is None else number_of(parent),
                token_ids=list(event.token_ids),
                block_size=block_size,
                lora_id=None,
                medium=MEDIUM,
                lora_name=event.lora,
                extra_keys=extra_keys_of(event),
                group_idx=ONLY_GROUP,
                kv_cache_spec_kind=spec_kind,
                session_id=event.session_id,
            )
