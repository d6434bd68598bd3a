"""Commands to an engine core: messages without an answer, and calls with a reply."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from hookline.events import StepOutput
from hookline.finish_cause import FinishCause
from hookline.request import GenerateRequest
from hookline.sections import NO_SECTIONS, Sections
from hookline.step import SleepLevel

SCHEMA_VERSION = 67
"""Version of all structs that cross a process boundary or are recorded.

Increment it when one of them changes.
"""

R_co = TypeVar("R_co", covariant=True)


class Add(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Adds completions of one prompt; QUEUED follows for each in an output.

    Attributes:
        request: The first of them.
        sibling_ids: Ids of the others, by their index. They share the first one's
            prompt and parameters, which are sent and kept only once.
    """

    request: GenerateRequest
    sibling_ids: list[int] = []

    def siblings(self) -> Iterator[GenerateRequest]:
        """Yields the requests of the others."""
        first = self.request.completion_index + 1
        for index, request_id in enumerate(self.sibling_ids, first):
            yield msgspec.structs.replace(
                self.request, request_id=request_id, completion_index=index
            )


class Finish(msgspec.Struct, frozen=True, tag=True):
    """Ends requests early; FINISHED follows. Unknown ids are ignored."""

    request_ids: list[int]
    cause: FinishCause


class EngineCommand(msgspec.Struct, Generic[R_co], frozen=True):
    """A command that the engine answers with an `R_co`."""


class SleepMode(StrEnum):
    """What happens to running requests when an engine goes to sleep."""

    KEEP = "keep"
    WAIT = "wait"
    ABORT = "abort"


class SleepState(msgspec.Struct, frozen=True, tag=True):
    """Sleep level of an engine; None while it is awake."""

    level: SleepLevel | None


class Told(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """What extensions have answered, by their names."""

    sections: Sections = NO_SECTIONS


class TellExtensions(EngineCommand[Told], frozen=True, tag=True, omit_defaults=True):
    """Tells extensions something, by their names; replies with their answers."""

    sections: Sections = NO_SECTIONS


class ResetPrefixCache(TellExtensions, frozen=True, tag=True, omit_defaults=True):
    """Drops every cached prefix block that no request holds, and tells extensions.

    Attributes:
        reset_running_requests: Whether running requests lose theirs, too, and are
            computed again.
    """

    reset_running_requests: bool = False


class Sleep(EngineCommand[SleepState], frozen=True, tag=True):
    """Releases memory; replies once it is released.

    Requests that wait stay in the queue, and new ones join them, until `WakeUp`. The
    prefix cache is lost. A sleeping engine may be put into a deeper sleep.

    Attributes:
        level: The memory to release.
        mode: `keep` preempts running requests and resumes them after `WakeUp`; `wait`
            lets them finish first; `abort` aborts all requests, also waiting ones.
    """

    level: SleepLevel = SleepLevel.KV_CACHE
    mode: SleepMode = SleepMode.KEEP


class WakeUp(EngineCommand[SleepState], frozen=True, tag=True):
    """Allocates or loads what `Sleep` released; replies when steps can run again.

    Cancels a `Sleep` that still waits for running requests.
    """


class IsSleeping(EngineCommand[SleepState], frozen=True, tag=True):
    """Replies with the sleep state."""


class Call(msgspec.Struct, frozen=True, tag=True):
    """A command that awaits a `Reply`.

    Attributes:
        client: Index of the client that gets the reply.
        number: Identifies the call among the client's.
    """

    client: int
    number: int
    command: TellExtensions | ResetPrefixCache | Sleep | WakeUp | IsSleeping


class Reply(msgspec.Struct, frozen=True, tag=True):
    """The reply to a `Call`.

    Attributes:
        client: The call's `client`.
        number: The call's `number`.
        value: The command's result.
        error: Why the engine refused the command; None on success.
    """

    client: int
    number: int
    value: Told | SleepState | None = None
    error: str | None = None


Command = Add | Finish | Call
EngineMessage = StepOutput | Reply
"""Messages of a running engine to its clients."""
