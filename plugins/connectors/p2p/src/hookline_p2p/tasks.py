"""Messages between the two sides of the connector, as msgpack."""

import msgspec


class Address(msgspec.Struct, array_like=True, frozen=True):
    """A rank's address; sent once, when its worker's side listens.

    Attributes:
        engine_id: Id of this start of the rank.
        port: Port that it listens on.
    """

    engine_id: str
    port: int


class Place(msgspec.Struct, array_like=True, frozen=True):
    """Where a rank of another engine keeps its part of blocks."""

    engine_id: str
    host: str
    port: int
    transfer_id: int


class LoadTask(msgspec.Struct, array_like=True, frozen=True):
    """A load.

    Attributes:
        transfer_id: This engine's number of the transfer.
        block_ids: Blocks to fill, in order.
        block_hashes: Hashes of their content.
        places: Where the blocks are kept, by rank of the producer.
    """

    transfer_id: int
    block_ids: list[int]
    block_hashes: list[bytes]
    places: list[Place]


class KeepTask(msgspec.Struct, array_like=True, frozen=True):
    """Blocks of a finished request to keep for another engine.

    Attributes:
        transfer_id: This engine's number of the transfer.
        block_ids: Full blocks, in order.
        block_hashes: Hashes of their content.
        decoder: (host, port) of the engine to offer them to, whose ranks listen on
            consecutive ports from this one on; None waits for requests.
    """

    transfer_id: int
    block_ids: list[int]
    block_hashes: list[bytes]
    decoder: tuple[str, int] | None


class Tasks(msgspec.Struct, array_like=True):
    """The orders of one step.

    Attributes:
        loads: Loads to start.
        keeps: Blocks to keep.
        cancelled: Loads and saves that the engine has given up.
        unwanted: Kept blocks that finished requests did not load, by rank of the
            producer.
        bad_params: Number of requests with invalid `kv_transfer_params`.
    """

    loads: list[LoadTask] = []
    keeps: list[KeepTask] = []
    cancelled: list[int] = []
    unwanted: list[list[Place]] = []
    bad_params: int = 0
