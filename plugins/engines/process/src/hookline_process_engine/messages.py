"""The messages between a client and engine processes that it owns."""

import msgspec

from hookline.config.engine import EngineConfig
from hookline.engine.commands import Add, Call, Finish, Reply
from hookline.events import ClockPair, StepOutput
from hookline.payloads import EngineFacts


class Start(msgspec.Struct, frozen=True, tag=True):
    """Starts the engine; its owner sends this in reply to `Hello`."""

    config: EngineConfig


ToEngine = Start | Add | Finish | Call


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The engine process runs; its first message.

    Attributes:
        address: Address of the engine's inbox.
    """

    address: str


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


class Output(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """The output of a step, or a state.

    Attributes:
        output: The output.
        dropped: Number of messages that the engine process has dropped so far, because
            they were not valid.
    """

    output: StepOutput
    dropped: int = 0


ToClient = Hello | Ready | StartFailed | Failed | Output | Reply
