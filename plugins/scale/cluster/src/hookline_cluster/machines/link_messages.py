"""The messages between a head node and engines of other machines, besides the usual.

A process that asks to be an engine has the role `JOINER`, and no key. With `Welcome` it
gets the key of its messages and becomes the engine. A process is welcome once, so that
whatever an earlier one has sent has another key and reaches no request of this one.
"""

import msgspec

from hookline.config import EngineConfig
from hookline.engine.commands import Add, Call, Finish, Reply
from hookline_cluster.clients.messages import (
    Attach,
    Detach,
    DetachDrained,
    ForceDetach,
    OfSecondaryClients,
)
from hookline_process_engine.mailbox import KEY_BYTES
from hookline_process_engine.messages import Failed, Output, Ready, StartFailed
from hookline_processes.usage import RoleUsage

JOINING_KEY = bytes(KEY_BYTES)
"""Stands in the messages from and to a process that is not an engine yet."""


class Join(msgspec.Struct, frozen=True, tag=True):
    """Asks to be an engine.

    Attributes:
        host: Name of the machine.
        pid: The process there.
        version: Version of Hookline.
        model_digest: Digest of the model's folder; see `digest_of_folder`.
        given: Options that were given on the other machine and concern all engines, as
            pairs of flag and JSON; the head node must have the same.
    """

    host: str
    pid: int
    version: str
    model_digest: str
    given: dict[str, str]


class Welcome(msgspec.Struct, frozen=True, tag=True):
    """The head node's configuration for the engine, and the key of its messages."""

    config: EngineConfig
    key: bytes


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The process cannot be the engine.

    Attributes:
        reason: Why, in one clause.
        is_final: Whether asking again is useless.
    """

    reason: str
    is_final: bool


class Ping(msgspec.Struct, frozen=True, tag=True):
    """Asks for a sign of life.

    Attributes:
        at: Time on the head node's clock, in ns.
    """

    at: int


class Pong(msgspec.Struct, frozen=True, tag=True):
    """Returns the time of a `Ping`; an engine sends it between two steps.

    Attributes:
        at: That time.
        processes: What the engine's processes take; None if that is not news.
    """

    at: int
    processes: tuple[RoleUsage, ...] | None = None


class Goodbye(msgspec.Struct, frozen=True, tag=True):
    """Ends the engine's process.

    Attributes:
        returns: Whether another process shall ask to be the engine in its place; else
            the head node ends.
    """

    returns: bool


class Leaving(msgspec.Struct, frozen=True, tag=True):
    """The engine is asked to end: it finishes its requests and wants no more."""


class Left(msgspec.Struct, frozen=True, tag=True):
    """The engine ends as it was asked to; it has no requests left, or no time."""


ToRemoteEngine = (
    Welcome
    | Refused
    | Ping
    | Goodbye
    | Attach
    | Detach
    | DetachDrained
    | ForceDetach
    | Add
    | Finish
    | Call
)
FromRemoteEngine = Ready | StartFailed | Failed | Output | Reply | Pong | Leaving | Left
ToHead = Join | FromRemoteEngine | OfSecondaryClients
