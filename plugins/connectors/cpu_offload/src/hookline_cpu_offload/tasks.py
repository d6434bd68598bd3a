"""Messages between the two sides of the connector, as msgpack."""

import msgspec

from hookline_metrics.connector_events import TierMove

ON_DISK = -1
"""Slot number of a block on disk."""


class Move(msgspec.Struct, array_like=True):
    """A copy between a KV block and a slot.

    Attributes:
        block_id: Id of the KV block.
        slot: Slot in host memory, or `ON_DISK`.
        block_hash: Hash of the block.
    """

    block_id: int
    slot: int
    block_hash: bytes


class Spill(msgspec.Struct, array_like=True):
    """A slot's content to write to disk before the slot is reused."""

    slot: int
    block_hash: bytes


class LoadTask(msgspec.Struct, array_like=True):
    """A load; blocks on disk have `ON_DISK` for a slot."""

    transfer_id: int
    moves: list[Move]


class Tasks(msgspec.Struct, array_like=True):
    """The orders of one step, in the order of execution.

    Attributes:
        spills: Slots to write to disk.
        takes: Blocks to copy into slots.
        loads: Loads to start.
        number: Number of the step among those with orders.
        num_resets: How often the tiers were to be emptied so far.
        removals: Hashes of blocks to remove from disk, after what is written.
    """

    spills: list[Spill] = []
    takes: list[Move] = []
    loads: list[LoadTask] = []
    number: int = 0
    num_resets: int = 0
    removals: list[bytes] = []


class Moved(msgspec.Struct, array_like=True):
    """What has moved into a tier and out of it: now, and in total since the start.

    Attributes:
        in_bytes: Bytes stored.
        out_bytes: Bytes loaded into the cache.
        in_ns: Time of storing, ns, without waiting for a thread.
        out_ns: Time of loading, ns, summed over threads, likewise.
        dropped_stores: Stores that were not made, as too many waited.
        dropped_blocks: Number of their blocks.
        failed_blocks: Blocks of the others that were not stored.
        failed_stores: Stores that failed.
        failed_loads: Loads that failed or were cancelled.
        storing: Stores in progress.
        loading: Loads in progress.
        storing_blocks: Number of their blocks.
        loading_blocks: Number of their blocks.
    """

    in_bytes: int = 0
    out_bytes: int = 0
    in_ns: int = 0
    out_ns: int = 0
    dropped_stores: int = 0
    dropped_blocks: int = 0
    failed_blocks: int = 0
    failed_stores: int = 0
    failed_loads: int = 0
    storing: int = 0
    loading: int = 0
    storing_blocks: int = 0
    loading_blocks: int = 0


class Report(msgspec.Struct, array_like=True):
    """State of the worker's side.

    Attributes:
        lost: (slot, hash) of slots that lack their content, since the last report.
        ended: Moves that have ended since the last report.
        number: Number of the last step whose orders were executed.
        cpu: Moves of host memory.
        disk: Moves of the disk.
        disk_blocks: Known number of blocks on disk.
        disk_bytes: Size of their files.
        num_resets: How often the disk was emptied.
    """

    lost: list[tuple[int, bytes]] = []
    ended: list[TierMove] = []
    number: int = 0
    cpu: Moved = msgspec.field(default_factory=Moved)
    disk: Moved = msgspec.field(default_factory=Moved)
    disk_blocks: int = 0
    disk_bytes: int = 0
    num_resets: int = 0
