"""Commands to an engine core: messages without an answer, and calls with a reply."""

from typing import Generic, TypeVar

import msgspec

from hookline.events import StepOutput
from hookline.finish_cause import FinishCause
from hookline.request import EngineRequest

SCHEMA_VERSION = 1
"""Of every struct that crosses a process boundary or is recorded.

Raise it when one of them changes.
"""

R_co = TypeVar("R_co", covariant=True)


class Add(msgspec.Struct, frozen=True, tag=True):
    """Adds a request; QUEUED follows in an output."""

    request: EngineRequest


class Finish(msgspec.Struct, frozen=True, tag=True):
    """Ends requests early; FINISHED follows. Unknown ids are ignored."""

    request_ids: list[int]
    cause: FinishCause


class EngineCommand(msgspec.Struct, Generic[R_co], frozen=True):
    """A command that the engine answers with an `R_co`."""


class ResetPrefixCache(EngineCommand[bool], frozen=True, tag=True):
    """Drops every cached prefix block that no request holds; replies True."""


class Call(msgspec.Struct, frozen=True, tag=True):
    """A command that awaits a `Reply`.

    Attributes:
        client: Index of the client that gets the reply.
        number: Identifies the call among the client's.
    """

    client: int
    number: int
    command: ResetPrefixCache


class Reply(msgspec.Struct, frozen=True, tag=True):
    """The reply to a `Call`.

    Attributes:
        client: As in the call.
        number: As in the call.
        value: What the command returned.
        error: Why the engine refused the command; None on success.
    """

    client: int
    number: int
    value: bool | None = None
    error: str | None = None


Command = Add | Finish | Call
EngineNews = StepOutput | Reply
"""What an engine sends its clients while it runs."""
