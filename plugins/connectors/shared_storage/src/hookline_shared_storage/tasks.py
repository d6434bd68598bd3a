"""What the scheduler's side tells the worker's side, as msgpack."""

import msgspec


class LoadTask(msgspec.Struct, array_like=True):
    """A load.

    Attributes:
        is_promised: The last of its blocks may still be on their way into storage.
    """

    transfer_id: int
    block_ids: list[int]
    block_hashes: list[bytes]
    is_async: bool
    is_promised: bool = False


class Tasks(msgspec.Struct, array_like=True):
    """Of one step.

    Attributes:
        loads: That begin.
        saves: (block id, hash) of blocks that the step fills.
    """

    loads: list[LoadTask] = []
    saves: list[tuple[int, bytes]] = []
