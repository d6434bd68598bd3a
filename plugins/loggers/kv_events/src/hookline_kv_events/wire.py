"""Wire format of events, as in vLLM since 0.9: positional arrays, tag first.

`vllm/distributed/kv_events.py` defines the fields and their order; its newer versions
write maps (`map_wire`), which fewer readers accept. A hash is sent as an unsigned
integer: its last 8 bytes, big-endian, as in vLLM by default.
"""

from collections.abc import Sequence

import msgspec

from hookline.events import BlocksRemoved, BlocksStored, CacheCleared, CacheEvent

MEDIUM = "GPU"
"""vLLM's name for the cache that the model reads, on any device."""


class KVCacheEvent(msgspec.Struct, array_like=True, gc=False, tag=True):
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
    """

    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[tuple[str, ...] | None] | None = None


class BlockRemoved(KVCacheEvent):
    """Blocks were evicted from the prefix cache."""

    block_hashes: list[int]
    medium: str | None


class AllBlocksCleared(KVCacheEvent):
    """The prefix cache was cleared."""


WireEvent = BlockStored | BlockRemoved | AllBlocksCleared


class KVEventBatch(msgspec.Struct, array_like=True, gc=False):
    """The events of one step.

    Attributes:
        ts: Seconds since the epoch.
        events: Events in order.
        data_parallel_rank: Index of the engine.
    """

    ts: float
    events: list[WireEvent]
    data_parallel_rank: int | None = None


class ArrayEncoder:
    """Encodes batches whose events are arrays."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._encoder = msgspec.msgpack.Encoder()

    def encode(
        self, ts: float, events: Sequence[CacheEvent], rank: int, spec_kind: str
    ) -> bytes:
        """Returns a batch; see `BatchEncoder`."""
        del spec_kind  # has no position in these events
        found = [wire_event(each, self._block_size) for each in events]
        return self._encoder.encode(KVEventBatch(ts, found, rank))


def number_of(block_hash: bytes) -> int:
    """Returns a hash as an integer for the wire."""
    return int.from_bytes(block_hash[-8:], "big")


def extra_keys_of(event: BlocksStored) -> list[tuple[str, ...] | None] | None:
    """Returns the inputs of each hash beside tokens, parent and adapter, if any."""
    if event.cache_salt is None or event.parent_hash is not None:
        return None
    return [(event.cache_salt,), *[None] * (len(event.block_hashes) - 1)]


def wire_event(event: CacheEvent, block_size: int) -> WireEvent:
    """Converts an engine's event to the wire format."""
    match event:
        case CacheCleared():
            return AllBlocksCleared()
        case BlocksRemoved():
            return BlockRemoved(list(map(number_of, event.block_hashes)), MEDIUM)
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
            )
