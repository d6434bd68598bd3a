"""The life of a sampled block of the prefix cache."""

import msgspec


class BlockEviction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A sampled block of the prefix cache was taken for something else (ns).

    Attributes:
        lifetime: From its allocation to its eviction.
        idle: From the moment when its last holder gave it back to its eviction.
        reuse_gaps: Between its last uses, of which the allocation is the first; at
            most three.
    """

    lifetime: int
    idle: int
    reuse_gaps: tuple[int, ...] = ()
