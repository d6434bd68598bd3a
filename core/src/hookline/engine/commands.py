"""What the front end tells an engine and how an engine answers: the wire's messages."""

import msgspec

from hookline.events import ClockPair, StepOutput
from hookline.payloads import EngineFacts
from hookline.request import EngineRequest, FinishReason

COMMANDS_SOCKET = "commands.ipc"
ANSWERS_SOCKET = "answers.ipc"
"""Names of the two sockets in the front end's private folder."""


class Add(msgspec.Struct, frozen=True, tag=True):
    """Take this request in."""

    request: EngineRequest


class Finish(msgspec.Struct, frozen=True, tag=True):
    """End these requests."""

    request_ids: list[int]
    reason: FinishReason
    cause: str


class ResetPrefixCache(msgspec.Struct, frozen=True, tag=True):
    """Forget every reusable prefix."""


Command = Add | Finish | ResetPrefixCache


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The engine can take requests."""

    facts: EngineFacts
    clock: ClockPair


class StartFailed(msgspec.Struct, frozen=True, tag=True):
    """The engine could not start.

    Attributes:
        kind: `config` or `model`.
        subject: The option, or the model.
        detail: Why.
    """

    kind: str
    subject: str
    detail: str


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The engine is about to end because of an error."""

    reason: str


class Output(msgspec.Struct, frozen=True, tag=True):
    """A step's output, or a state's."""

    output: StepOutput


Answer = Ready | StartFailed | Failed | Output
