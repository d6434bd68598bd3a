"""What the two sides tell each other, as msgpack."""

import msgspec

ON_DISK = -1
"""Instead of a slot."""


class Move(msgspec.Struct, array_like=True):
    """A block's content between its place in the cache and a slot.

    Attributes:
        block_id: Of the cache.
        slot: Of host memory.
        block_hash: What it is.
    """

    block_id: int
    slot: int
    block_hash: bytes


class Spill(msgspec.Struct, array_like=True):
    """A slot's content that goes to disk before another comes into the slot."""

    slot: int
    block_hash: bytes


class LoadTask(msgspec.Struct, array_like=True):
    """A load; blocks on disk have `ON_DISK` for a slot."""

    transfer_id: int
    moves: list[Move]


class Tasks(msgspec.Struct, array_like=True):
    """Of one step, in the order in which they are done.

    Attributes:
        spills: Out of slots.
        takes: Into slots.
        loads: That begin.
    """

    spills: list[Spill] = []
    takes: list[Move] = []
    loads: list[LoadTask] = []


class Report(msgspec.Struct, array_like=True):
    """What the worker's side knows; all but `lost` since the start.

    Attributes:
        lost: (slot, hash) of slots that do not have what they should.
        taken_bytes: Into host memory.
        given_bytes: Out of it, into the cache.
        disk_written_bytes: Of blocks, to disk.
        disk_read_bytes: Of blocks, from disk.
        disk_blocks: There, as far as is known.
        disk_bytes: Of their files.
        disk_dropped_blocks: That were not written.
    """

    lost: list[tuple[int, bytes]] = []
    taken_bytes: int = 0
    given_bytes: int = 0
    disk_written_bytes: int = 0
    disk_read_bytes: int = 0
    disk_blocks: int = 0
    disk_bytes: int = 0
    disk_dropped_blocks: int = 0
