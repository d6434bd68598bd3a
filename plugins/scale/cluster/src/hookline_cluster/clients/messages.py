"""The messages between clients and engine processes that one of them owns."""

from pathlib import Path

import msgspec

from hookline.engine.commands import Add, Call, Finish, Reply
from hookline.events import ClockPair, Finished
from hookline.frozen import plain
from hookline.payloads import EngineFacts
from hookline_process_engine.messages import (
    Failed,
    Hello,
    Output,
    Ready,
    Start,
    StartFailed,
)
from hookline_server.engine_sharing import AttachInfo


class Attach(msgspec.Struct, frozen=True, tag=True):
    """Adds another client; the engine replies with `Ready`.

    Attributes:
        address: Address of the client's inbox.
    """

    address: str


class Detach(msgspec.Struct, frozen=True, tag=True):
    """Removes the client that sends it, and aborts its requests, unheard by anyone."""


class ForceDetach(msgspec.Struct, frozen=True, tag=True):
    """Removes a secondary client that has ended; from the owner only.

    Its requests are aborted, and the owner gets their FINISHED.

    Attributes:
        client: Index of the secondary client.
    """

    client: int


class DetachDrained(msgspec.Struct, frozen=True, tag=True):
    """Removes the client that sends it, which has nothing open; the owner is told.

    Attributes:
        number: Number of the owner's `DrainEngine`.
    """

    number: int


ToEngine = Start | Attach | Detach | DetachDrained | ForceDetach | Add | Finish | Call


class Overrun(msgspec.Struct, frozen=True, tag=True):
    """A secondary client has not taken its outputs for too long and gets no more.

    Attributes:
        client: Index of the secondary client.
    """

    client: int


class SlowCall(msgspec.Struct, frozen=True, tag=True):
    """A secondary client's call that may take long begins or ends; to the owner.

    Attributes:
        is_open: Whether it begins.
    """

    is_open: bool


class ForceDetached(msgspec.Struct, frozen=True, tag=True):
    """The reply to `ForceDetach`.

    Attributes:
        client: Index of the secondary client.
        recent: The latest ends of its requests that were sent to it.
    """

    client: int
    recent: list[Finished]


class ClientDrained(msgspec.Struct, frozen=True, tag=True):
    """A secondary client has left as the owner wants; nothing of it is open any more.

    Attributes:
        client: Index of the secondary client.
        number: Number of the owner's `DrainEngine`.
    """

    client: int
    number: int


class EngineDown(msgspec.Struct, frozen=True, tag=True):
    """An engine has ended; from its owner to the secondary clients.

    Attributes:
        engine_index: Its index.
        reason: Why, in one clause.
        kind: A `DeathKind`.
        is_replaced: Whether a new process is to take its place.
        returns: Whether another machine starts it, whenever it may be, so that no
            request waits for it.
    """

    engine_index: int
    reason: str
    kind: str
    is_replaced: bool
    returns: bool = False


class Leaves(msgspec.Struct, frozen=True, tag=True):
    """An engine of another machine ends by itself once it has nothing to do.

    From its owner to the secondary clients, which send it no more if there are others.
    """

    engine_index: int


class EngineStalled(msgspec.Struct, frozen=True, tag=True):
    """The owner's verdict on an engine that does not work; to the secondary clients.

    Attributes:
        engine_index: Its index.
        reason: What it does not do; None once it works again.
        seconds: How long it has not done it.
        is_final: Whether its requests are given up.
    """

    engine_index: int
    reason: str | None
    seconds: float = 0.0
    is_final: bool = False


class DrainEngine(msgspec.Struct, frozen=True, tag=True):
    """The owner wants to end an engine; to the secondary clients.

    They send it no more requests, and leave it with `DetachDrained` once those that it
    has have ended. An `EngineAddress` of the same process takes it back.

    Attributes:
        engine_index: Its index.
        number: Number of the wish, to be returned.
    """

    engine_index: int
    number: int


class EngineRemoved(msgspec.Struct, frozen=True, tag=True):
    """An engine is there no longer and is to be forgotten; from its owner."""

    engine_index: int


class EngineAddress(msgspec.Struct, frozen=True, tag=True):
    """An engine process to which a secondary client may attach; from its owner.

    Attributes:
        key: The secret of the messages from and to the process.
        address: Address of its inbox.
        facts: What it reported when it was ready.
        clock: Its clocks then.
        down: Its end, if it has ended.
        host: Its machine, if that is another one.
    """

    engine_index: int
    key: bytes
    address: str
    facts: EngineFacts
    clock: ClockPair
    down: EngineDown | None = None
    host: str = ""


class AttachDetails(msgspec.Struct, frozen=True):
    """What a process needs to become a secondary client; for a private channel.

    Attributes:
        folder: Folder of the sockets.
        client_index: The secondary client's index.
        owner_index: The owner's.
        key: The secret of the messages from the owner to the secondary client.
        engines: All engines.
    """

    folder: str
    client_index: int
    owner_index: int
    key: bytes
    engines: list[EngineAddress]

    @property
    def folders(self) -> set[Path]:
        """The folders of the owner's sockets."""
        inboxes = [Path(each.address.removeprefix("ipc://")) for each in self.engines]
        return {Path(self.folder), *(inbox.parent for inbox in inboxes)}

    def packed(self) -> AttachInfo:
        """Returns it for whoever passes it on, and understands nothing of it."""
        return AttachInfo(
            self.client_index,
            sorted(map(str, self.folders)),
            msgspec.msgpack.encode(self, enc_hook=plain),
        )


OfSecondaryClients = ForceDetached | ClientDrained | SlowCall
"""What an engine tells its owner of other clients."""

ToClient = (
    Hello | Ready | StartFailed | Failed | Output | Reply | Overrun | OfSecondaryClients
)
ToSecondaryClient = (
    Ready
    | Failed
    | Output
    | Reply
    | EngineDown
    | EngineStalled
    | Leaves
    | DrainEngine
    | EngineRemoved
    | EngineAddress
)
