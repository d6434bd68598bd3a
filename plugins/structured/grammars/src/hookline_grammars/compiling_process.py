"""The engine's end of a compiling process: starts it, talks to it, ends it."""

import time
from dataclasses import dataclass

import msgspec

from hookline_grammars.messages import (
    ENDED,
    Broken,
    Compiled,
    Order,
    Ready,
    Refused,
    Reply,
    too_slow,
)
from hookline_grammars.spec import GrammarSpec
from hookline_processes.limits import small_environment
from hookline_processes.supervised import Output, Supervised

_START_SECONDS = 120.0
"""Time limit for creating the backend, on a busy machine."""
_SLOWEST = 20.0
"""Wall-clock seconds allowed per second of processor time, on a busy machine."""
_LEAVE_SECONDS = 1.0
"""Time for the process to end its fork before it is killed itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileLimits:
    """Limits of a compiling process.

    Attributes:
        cpu_seconds: Processor time for one grammar.
        memory_bytes: Address space for grammars.
    """

    cpu_seconds: float
    memory_bytes: int


class CompilingProcess:
    """A process that compiles one grammar at a time; only `kill` is thread-safe."""

    def __init__(self, setup_fd: int, limits: CompileLimits) -> None:
        """Starts the process and returns at once; `setup_fd` has the `Setup`.

        Raises:
            OSError: It cannot be started.
        """
        self._limits = limits
        self._decoder: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)
        self._process = Supervised(
            "hookline_grammars.process",
            (setup_fd, limits.cpu_seconds, limits.memory_bytes),
            name="the grammar compiler",
            role="grammar",
            pass_fds=(setup_fd,),
            environment=small_environment(),
            output=Output.NONE,
        )

    def wait_until_ready(self) -> str:
        """Waits for the backend; returns why it failed, or an empty text."""
        match self._reply(_START_SECONDS):
            case Ready():
                return ""
            case Broken(reason):
                return reason
            case _:
                return self._death("its process has ended at the start")

    def compile(
        self, spec: GrammarSpec, *, is_trial: bool = False
    ) -> Compiled | Refused:
        """Compiles a grammar; if the process ends meanwhile, `has_ended` is True.

        A trial takes a part of the time only; what takes longer is refused as slow.
        """
        begun = time.perf_counter()
        self._process.send_bytes(msgspec.msgpack.encode(Order(spec, is_trial)))
        reply = self._reply(self._limits.cpu_seconds * _SLOWEST)
        if isinstance(reply, Compiled | Refused):
            return reply
        reason = self._death(ENDED)
        return Refused(reason, time.perf_counter() - begun, is_limit=True)

    @property
    def has_ended(self) -> bool:
        return self._process.exit_code is not None

    def hang_up(self) -> None:
        """Lets the process end its fork and itself; may be called in any thread."""
        self._process.hang_up()

    def close(self) -> None:
        """Ends the process and reaps it; may be called twice."""
        self._process.hang_up()
        self._process.close(_LEAVE_SECONDS)

    def _death(self, otherwise: str) -> str:
        """Ends the process if it is still running; returns the cause in words."""
        was_late = not self.has_ended
        self.close()
        if was_late:
            return too_slow(self._limits.cpu_seconds)
        is_out = self._process.is_out_of_memory
        return f"memory ran out: {otherwise}" if is_out else otherwise

    def _reply(self, seconds: float) -> Reply | None:
        """Returns the next reply; None at a timeout or if the process has ended."""
        data = self._process.receive_bytes(seconds)
        if data is None:
            return None
        try:
            return self._decoder.decode(data)
        except msgspec.MsgspecError:  # not what it is written to say
            return None
