"""Compiles grammars: `python -m hookline.structured.process FD SECONDS BYTES OWNER`.

FD is a file with the `Setup`, OWNER the process id of the engine. Standard input is a
socket: specifications come in, replies go out, and the process ends when the engine
closes it or has ended. A fork of it compiles: the kernel ends that when a grammar
takes more than SECONDS of processor time, whatever the backend does, and refuses memory
beyond BYTES.
"""

import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from hookline.child_limits import (
    end_with_owner,
    frame,
    limit_memory,
    next_frame,
    processor_time,
    whole_file,
)
from hookline.structured.backend import (
    BackendContext,
    GrammarBackend,
    RefusedGrammarError,
)
from hookline.structured.compiling_fork import CompilingFork
from hookline.structured.compiling_process import CompileLimits
from hookline.structured.loading import make_backend
from hookline.structured.messages import (
    ENDED,
    Broken,
    Compiled,
    Ready,
    Refused,
    Reply,
    Setup,
    too_slow,
)
from hookline.structured.trial import Trial, Way
from hookline.structured_outputs import GrammarSpec
from hookline_registry import Failure, isolate

_NICENESS = 5
"""Lets the engine's steps go first."""
MOST_BYTES = 32 * 2**20
"""Maximum size of a compiled grammar."""
_MOST_REASON = 500
"""Maximum characters of a backend's reason."""


def main(setup_fd: int, cpu_seconds: float, memory_bytes: int, owner: int) -> None:
    """Has grammars compiled until the engine closes the socket, or has ended."""
    end_with_owner(owner)
    os.nice(_NICENESS)
    setup = msgspec.msgpack.decode(whole_file(setup_fd), type=Setup)
    with socket.socket(fileno=0) as channel, channel.makefile("rb") as incoming:
        context = _context(setup)
        backends = isolate(_backends, setup.backends, context)
        if isinstance(backends, Failure):
            channel.sendall(frame(Broken(backends.summary)))
            return
        gc.freeze()  # so that forks share these objects
        channel.sendall(frame(Ready()))
        limits = CompileLimits(cpu_seconds=cpu_seconds, memory_bytes=memory_bytes)
        compiler = _Compiler(partial(_serve, backends, context, limits), cpu_seconds)
        while (data := next_frame(incoming)) is not None:
            channel.sendall(compiler.reply(data, channel))
        compiler.close()


class _Compiler:
    """The fork that compiles, and is replaced whenever it ends."""

    def __init__(
        self, serve: Callable[[socket.socket], None], cpu_seconds: float
    ) -> None:
        self._serve = serve
        self._cpu_seconds = cpu_seconds
        self._fork: CompilingFork | None = None

    def reply(self, request: bytes, owner: socket.socket) -> bytes:
        begun = time.perf_counter()
        self._fork = self._fork or CompilingFork(self._serve)
        reply = self._fork.reply(request, owner)
        if isinstance(reply, bytes):
            return reply
        self._fork = None
        reason = ENDED
        if reply == -signal.SIGPROF:
            reason = too_slow(self._cpu_seconds)
        seconds = time.perf_counter() - begun
        return frame(Refused(reason, seconds, is_limit=True))

    def close(self) -> None:
        if self._fork is not None:
            self._fork.end()


def _serve(
    backends: Sequence[GrammarBackend],
    context: BackendContext,
    limits: CompileLimits,
    channel: socket.socket,
) -> None:
    """Compiles the grammars that arrive; runs in the fork."""
    limit_memory(limits.memory_bytes)
    decoder = msgspec.msgpack.Decoder(GrammarSpec)
    trial = Trial(context)
    with channel.makefile("rb") as incoming:
        while (data := next_frame(incoming)) is not None:
            spec = decoder.decode(data)
            channel.sendall(frame(_compile(backends, spec, trial, limits.cpu_seconds)))


def _context(setup: Setup) -> BackendContext:
    return BackendContext(
        tokens=setup.tokens,
        vocab_size=setup.vocab_size,
        eos_token_ids=setup.eos_token_ids,
        options=setup.options,
    )


def _backends(names: Sequence[str], context: BackendContext) -> list[GrammarBackend]:
    return [make_backend(name, context) for name in names]


def _compile(
    backends: Sequence[GrammarBackend],
    spec: GrammarSpec,
    trial: Trial,
    cpu_seconds: float,
) -> Reply:
    begun = time.perf_counter()
    with processor_time(cpu_seconds):
        outcome = isolate(compiled_and_tried, backends, spec, trial)
    seconds = time.perf_counter() - begun
    if not isinstance(outcome, Failure):
        data, backend = outcome
        return Compiled(data, seconds, backend)
    if isinstance(outcome.error, MemoryError):
        reason = "compiling it takes too much memory"
        return Refused(reason, seconds, is_limit=True)
    if isinstance(outcome.error, TimeoutError):
        reason = "following it takes too much processor time"
        return Refused(reason, seconds, is_limit=True)
    is_own = isinstance(outcome.error, RefusedGrammarError)
    reason = str(outcome.error) if is_own else outcome.summary
    return Refused(reason[:_MOST_REASON], seconds)


def compiled_and_tried(
    backends: Sequence[GrammarBackend], spec: GrammarSpec, trial: Trial
) -> tuple[bytes, int]:
    """Compiles a grammar and follows it for a while.

    Some grammars compile at once, but slow down as the text grows.

    Returns:
        Its bytes, and the index of the first backend that accepts it.
    """
    data, index = _compiled(backends, spec)
    if len(data) > MOST_BYTES:
        raise RefusedGrammarError(
            f"it takes {len(data)} bytes once compiled, and at most {MOST_BYTES} are "
            "allowed"
        )
    for way in Way:
        trial.walk(backends[index].matcher(data, trial.stop_token_ids), way)
    return data, index


def _compiled(
    backends: Sequence[GrammarBackend], spec: GrammarSpec
) -> tuple[bytes, int]:
    reasons = []
    for index, backend in enumerate(backends):
        try:
            return backend.compile(spec), index
        except RefusedGrammarError as error:
            reasons.append(str(error))
    raise RefusedGrammarError("; ".join(reasons))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
