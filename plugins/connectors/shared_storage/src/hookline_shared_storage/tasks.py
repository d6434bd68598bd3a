"""Messages from the scheduler's side to the worker's side, as msgpack."""

import msgspec


class LoadTask(msgspec.Struct, array_like=True):
    """A load.

    Attributes:
        is_promised: Whether some blocks may not be stored yet.
    """

    transfer_id: int
    block_ids: list[int]
    block_hashes: list[bytes]
    is_async: bool
    is_promised: bool = False


class Tasks(msgspec.Struct, array_like=True):
    """The orders of one step.

    Attributes:
        loads: Loads to start.
        saves: (block id, hash) of blocks that the step fills.
        removals: Hashes of blocks to remove, once earlier saves are done.
    """

    loads: list[LoadTask] = []
    saves: list[tuple[int, bytes]] = []
    removals: list[bytes] = []
