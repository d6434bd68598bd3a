"""What a KV connector did at single moments, for histograms; times are durations."""

from typing import Literal

import msgspec


class ConnectorLookup(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """A look-up of a request in a KV connector, which delays the scheduler.

    Attributes:
        nanoseconds: Duration of the call.
    """

    nanoseconds: int


class TierLookup(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """The part of a look-up that one tier took.

    Attributes:
        tier: Name of the tier.
        nanoseconds: Time spent looking for the request's blocks in it.
    """

    tier: str
    nanoseconds: int


class TierAllocation(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """A request for room in a tier, for the blocks of one store.

    Attributes:
        tier: Name of the tier.
        blocks: Number of blocks to store, whether or not there was room for them.
    """

    tier: str
    blocks: int


class TierMove(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """A store into a tier or a load from it that has ended.

    Attributes:
        tier: Name of the tier.
        direction: `in` for a store, `out` for a load.
        bytes: Bytes moved; the tier's `in_bytes` or `out_bytes` has grown by them.
        nanoseconds: From the order to the end, waiting for a thread included.
        is_good: Whether all its blocks were moved.
    """

    tier: str
    direction: Literal["in", "out"]
    bytes: int
    nanoseconds: int
    is_good: bool = True


TierEvent = TierLookup | TierAllocation | TierMove
"""What a connector reports about its tiers."""

ConnectorEvent = ConnectorLookup | TierEvent

MOST_EVENTS = 1024
"""Maximum number of a connector's events between two outputs; later ones are lost."""
