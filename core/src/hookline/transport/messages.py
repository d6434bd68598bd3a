"""The messages between a front end and an engine process."""

import msgspec

from hookline.events import ClockPair, StepOutput
from hookline.payloads import EngineFacts

COMMANDS_SOCKET = "commands.ipc"
ANSWERS_SOCKET = "answers.ipc"
"""Names of the two sockets in the front end's private folder."""


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
