"""The messages between an executor and ranks on other machines, in msgpack."""

import msgspec

from hookline_processes.owner import Owner


class RankEnlistment(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner of a rank's process tells it.

    Attributes:
        rank: Index of the rank.
        world_size: Number of ranks.
        output_rank: The rank that samples and reports.
        ranks_here: Number of the engine's ranks on its machine.
        model: Name or folder of the model.
        host: Numeric address of the executor.
        port: Its port.
        address: Numeric address of the rank's own machine, at which it listens.
        secret: The secret that it shares with the executor.
    """

    rank: int
    world_size: int
    output_rank: int
    ranks_here: int = 1
    model: str
    host: str
    port: int
    address: str = ""
    secret: bytes

    def packed(self) -> bytes:
        """Returns it in msgpack."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def receive(cls, owner: Owner) -> "RankEnlistment | None":
        """Waits for the owner's; None if it has gone."""
        data = owner.receive_bytes()
        return msgspec.msgpack.decode(data, type=cls) if data else None


class Hello(msgspec.Struct, frozen=True, tag=True):
    """A rank is there; its first message.

    Attributes:
        rank: Index of the rank.
        host: Name of its machine.
        pid: Its process there.
        version: Version of Hookline.
        model_digest: Digest of the model's folder; see `digest_of_folder`.
    """

    rank: int
    host: str
    pid: int
    version: str
    model_digest: str


class Answered(msgspec.Struct, frozen=True, tag=True):
    """What a rank answers to an order, encoded."""

    answer: bytes


class Counted(msgspec.Struct, frozen=True, tag=True):
    """Tokens that the rank's experts have computed since the last such message."""

    tokens: int


class StoreOpened(msgspec.Struct, frozen=True, tag=True):
    """Where the ranks meet; from the first rank to the executor, and to the others.

    Attributes:
        address: Numeric address of the first rank's machine.
        port: Port of the store.
    """

    address: str
    port: int


class Ordered(msgspec.Struct, frozen=True, tag=True):
    """What the executor orders, encoded."""

    order: bytes


class Probe(msgspec.Struct, frozen=True, tag=True):
    """Means nothing; that it cannot be sent tells that a connection is lost."""


ToRank = Ordered | StoreOpened | Probe
ToExecutor = Hello | Answered | Counted | StoreOpened
