"""Messages between the two sides of the connector, as msgpack."""

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
        num_resets: How often the storage was to be emptied so far.
        removals: Hashes of blocks to remove, once earlier saves are done.
    """

    loads: list[LoadTask] = []
    saves: list[tuple[int, bytes]] = []
    num_resets: int = 0
    removals: list[bytes] = []


class Report(msgspec.Struct, array_like=True):
    """State of the worker's side.

    Attributes:
        num_resets: How often it has emptied the storage.
        is_saving: Whether saves succeed.
    """

    num_resets: int = 0
    is_saving: bool = True
