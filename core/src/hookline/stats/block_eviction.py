"""Evictions from the prefix cache."""

import msgspec


class BlockEviction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The life of a sampled block that was evicted from the prefix cache, in ns.

    Attributes:
        lifetime: From the block's allocation to its eviction.
        idle: From when its last request freed it to its eviction.
        reuse_gaps: Between its last uses, the allocation included; at most three.
    """

    lifetime: int
    idle: int
    reuse_gaps: tuple[int, ...] = ()


class EvictionWork(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What evictions from the prefix cache took.

    Attributes:
        blocks: Number of evicted blocks.
        nanoseconds: Time of the allocations that evicted them, each from its first
            eviction on.
    """

    blocks: int = 0
    nanoseconds: int = 0


NO_EVICTIONS = EvictionWork()
