"""Events as vLLM has published them since 0.9: arrays, by position, tag first.

`vllm/distributed/kv_events.py` defines the fields and their order; newer versions of it
write maps, which fewer readers take. A hash is told as an unsigned number: the last 8
bytes of it, big-endian, as vLLM tells it unless it is asked for bytes.
"""

import msgspec

from hookline.events import BlocksRemoved, BlocksStored, CacheCleared, CacheEvent

MEDIUM = "GPU"
"""vLLM's word for the cache that the model reads, wherever that is."""


class KVCacheEvent(msgspec.Struct, array_like=True, gc=False, tag=True):
    """Any of them."""


class BlockStored(KVCacheEvent):
    """Full blocks that can be found now; each hash stands for all up to its end.

    Attributes:
        block_hashes: Theirs.
        parent_block_hash: Of the block before the first; None at a beginning.
        token_ids: `block_size` for each block.
        block_size: Tokens a block.
        lora_id: Of older readers; always None.
        medium: Where they are.
        lora_name: Adapter that they depend on.
        extra_keys: What else goes into each hash: a prompt's cache salt into its first
            one. None if there is nothing.
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
    """Blocks that cannot be found any more."""

    block_hashes: list[int]
    medium: str | None


class AllBlocksCleared(KVCacheEvent):
    """None can."""


WireEvent = BlockStored | BlockRemoved | AllBlocksCleared


class KVEventBatch(msgspec.Struct, array_like=True, gc=False):
    """Of one step.

    Attributes:
        ts: Seconds since the epoch.
        events: In order.
        data_parallel_rank: Index of the engine.
    """

    ts: float
    events: list[WireEvent]
    data_parallel_rank: int | None = None


def number_of(block_hash: bytes) -> int:
    """A hash as it is told."""
    return int.from_bytes(block_hash[-8:], "big")


def wire_event(event: CacheEvent, block_size: int) -> WireEvent:
    """An event of the engine as it is told."""
    match event:
        case CacheCleared():
            return AllBlocksCleared()
        case BlocksRemoved():
            return BlockRemoved(list(map(number_of, event.block_hashes)), MEDIUM)
        case BlocksStored():
            parent = event.parent_hash
            extra_keys: list[tuple[str, ...] | None] | None = None
            if event.cache_salt is not None and parent is None:
                extra_keys = [None] * len(event.block_hashes)
                extra_keys[0] = (event.cache_salt,)
            return BlockStored(
                block_hashes=list(map(number_of, event.block_hashes)),
                parent_block_hash=None if parent is None else number_of(parent),
                token_ids=event.token_ids,
                block_size=block_size,
                lora_id=None,
                medium=MEDIUM,
                lora_name=event.lora,
                extra_keys=extra_keys,
            )
