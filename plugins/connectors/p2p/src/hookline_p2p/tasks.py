"""What the scheduler's side tells the worker's side, and is told, as msgpack."""

import msgspec


class Address(msgspec.Struct, array_like=True, frozen=True):
    """Where this engine is found: told once, when the worker's side listens.

    Attributes:
        engine_id: Of this start.
        port: It listens on.
    """

    engine_id: str
    port: int


class Place(msgspec.Struct, array_like=True, frozen=True):
    """Of blocks that another engine keeps."""

    engine_id: str
    host: str
    port: int
    transfer_id: int


class LoadTask(msgspec.Struct, array_like=True, frozen=True):
    """A load.

    Attributes:
        transfer_id: Of this engine.
        block_ids: Where to.
        block_hashes: What.
        place: Where from.
    """

    transfer_id: int
    block_ids: list[int]
    block_hashes: list[bytes]
    place: Place


class KeepTask(msgspec.Struct, array_like=True, frozen=True):
    """Blocks of an ended request, for whoever asks for them.

    Attributes:
        transfer_id: Of this engine.
        block_ids: Full blocks.
        block_hashes: Theirs.
        decoder: (host, port) of who is offered them; None if they wait to be asked for.
    """

    transfer_id: int
    block_ids: list[int]
    block_hashes: list[bytes]
    decoder: tuple[str, int] | None


class Tasks(msgspec.Struct, array_like=True):
    """Of one step.

    Attributes:
        loads: That begin.
        keeps: Likewise.
        cancelled: Loads and saves that the engine has given up.
        unwanted: What requests ended without.
        bad_params: Requests whose `kv_transfer_params` could not be used.
    """

    loads: list[LoadTask] = []
    keeps: list[KeepTask] = []
    cancelled: list[int] = []
    unwanted: list[Place] = []
    bad_params: int = 0
