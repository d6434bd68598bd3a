"""Messages between the two sides of the connector, as msgpack."""

import msgspec

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
    """

    spills: list[Spill] = []
    takes: list[Move] = []
    loads: list[LoadTask] = []


class Report(msgspec.Struct, array_like=True):
    """State of the worker's side; totals since the start, except `lost`.

    Attributes:
        lost: (slot, hash) of slots that lack their content.
        taken_bytes: Bytes copied into host memory.
        given_bytes: Bytes copied from host memory to the cache.
        disk_written_bytes: Bytes of blocks written to disk.
        disk_read_bytes: Bytes of blocks read from disk.
        disk_blocks: Known number of blocks on disk.
        disk_bytes: Size of their files.
        disk_dropped_blocks: Number of blocks that were not written.
        taken_ns: Time of the copies into host memory, ns.
        given_ns: Time of the copies from host memory, ns.
        disk_written_ns: Time of writing to disk, ns.
        disk_read_ns: Time of reading from disk into the cache, ns, summed over threads.
    """

    lost: list[tuple[int, bytes]] = []
    taken_bytes: int = 0
    given_bytes: int = 0
    disk_written_bytes: int = 0
    disk_read_bytes: int = 0
    disk_blocks: int = 0
    disk_bytes: int = 0
    disk_dropped_blocks: int = 0
    taken_ns: int = 0
    given_ns: int = 0
    disk_written_ns: int = 0
    disk_read_ns: int = 0
