"""Messages between an engine and its compiling process, as msgpack in frames."""

import msgspec

from hookline_grammars.spec import GrammarSpec


class Setup(msgspec.Struct, frozen=True, array_like=True):
    """What a compiling process needs; it is read from a file.

    Attributes:
        backends: Names of the backends' entry points; the first that accepts a grammar
            compiles it.
        options: Their options.
        tokens: See `BackendContext`.
        vocab_size: Likewise.
        eos_token_ids: Likewise.
    """

    backends: tuple[str, ...]
    options: dict[str, object]
    tokens: list[bytes]
    vocab_size: int
    eos_token_ids: tuple[int, ...]


class Ready(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The first reply: the backend is ready."""


class Broken(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The only reply: the backend cannot be created.

    Attributes:
        reason: Why.
    """

    reason: str


class Compiled(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The reply to a `GrammarSpec` that compiles.

    Attributes:
        data: The backend's bytes.
        seconds: How long it took.
        backend: Index of the backend.
        is_loosened: Whether it leaves out what no backend can follow.
    """

    data: bytes
    seconds: float
    backend: int = 0
    is_loosened: bool = False


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The reply to a `GrammarSpec` that does not compile.

    Attributes:
        reason: Why, for the client.
        seconds: How long it took.
        is_limit: Whether it takes too much time or memory.
        is_final: Whether no other backend needs to try it.
        is_slow: Whether it takes too much time, so that more time may help.
    """

    reason: str
    seconds: float
    is_limit: bool = False
    is_final: bool = False
    is_slow: bool = False


class Order(msgspec.Struct, frozen=True, array_like=True):
    """What the process is asked to compile.

    Attributes:
        spec: The grammar.
        is_trial: Whether it is given a short time only, and refused as slow after that.
    """

    spec: GrammarSpec
    is_trial: bool


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """What a fork of the process is asked to do.

    Attributes:
        backend: Index of the backend that compiles.
        cpu_seconds: Processor time after which the fork is ended.
        spec: The grammar.
    """

    backend: int
    cpu_seconds: float
    spec: GrammarSpec


Reply = Ready | Broken | Compiled | Refused

ENDED = "it ends the process that compiles it"
"""Why a grammar is refused that kills its process."""


def too_slow(cpu_seconds: float) -> str:
    """Returns why a grammar is refused that exceeds this processor time."""
    return f"compiling it takes more than {round(cpu_seconds, 2):g} s of processor time"
