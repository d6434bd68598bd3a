"""Compiles grammars: `python -m hookline.structured.process FD SECONDS BYTES OWNER`.

FD is a file with the `Setup`, OWNER the process id of the engine. Standard input is a
socket: specifications come in, replies go out, and the process ends when the engine
closes it or has ended. The kernel ends the process when a grammar takes more than
SECONDS of processor time, whatever the backend does, and refuses memory beyond BYTES.
"""

import os
import socket
import sys
import time

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
from hookline.structured.loading import make_backend
from hookline.structured.messages import Broken, Compiled, Ready, Refused, Reply, Setup
from hookline.structured.trial import walk
from hookline.structured_outputs import GrammarSpec
from hookline_registry import Failure, isolate

_NICENESS = 5
"""Steps of the engine come first."""
MOST_BYTES = 32 * 2**20
"""Of a compiled grammar."""
_MOST_REASON = 500
"""Characters of a backend's reason."""


def main(setup_fd: int, cpu_seconds: float, memory_bytes: int, owner: int) -> None:
    """Compiles until the engine closes the socket, or has ended."""
    end_with_owner(owner)
    os.nice(_NICENESS)
    setup = msgspec.msgpack.decode(whole_file(setup_fd), type=Setup)
    with socket.socket(fileno=0) as channel, channel.makefile("rb") as incoming:
        context = _context(setup)
        backend = isolate(make_backend, setup.backend, context)
        if isinstance(backend, Failure):
            channel.sendall(frame(Broken(backend.summary)))
            return
        limit_memory(memory_bytes)
        channel.sendall(frame(Ready()))
        decoder = msgspec.msgpack.Decoder(GrammarSpec)
        while (data := next_frame(incoming)) is not None:
            reply = _compile(backend, decoder.decode(data), context, cpu_seconds)
            channel.sendall(frame(reply))


def _context(setup: Setup) -> BackendContext:
    return BackendContext(
        tokens=setup.tokens,
        vocab_size=setup.vocab_size,
        eos_token_ids=setup.eos_token_ids,
        options=setup.options,
    )


def _compile(
    backend: GrammarBackend,
    spec: GrammarSpec,
    context: BackendContext,
    cpu_seconds: float,
) -> Reply:
    begun = time.perf_counter()
    with processor_time(cpu_seconds):
        outcome = isolate(_tried, backend, spec, context)
    seconds = time.perf_counter() - begun
    if isinstance(outcome, bytes):
        return Compiled(outcome, seconds)
    if isinstance(outcome.error, MemoryError):
        reason = "compiling it takes too much memory"
        return Refused(reason, seconds, is_limit=True)
    is_own = isinstance(outcome.error, RefusedGrammarError)
    reason = str(outcome.error) if is_own else outcome.summary
    return Refused(reason[:_MOST_REASON], seconds)


def _tried(
    backend: GrammarBackend, spec: GrammarSpec, context: BackendContext
) -> bytes:
    """Compiles a grammar and follows it for a while.

    There are grammars that compile at once and take the longer the longer the text is.
    """
    data = backend.compile(spec)
    if len(data) > MOST_BYTES:
        raise RefusedGrammarError(
            f"it takes {len(data)} bytes once compiled, and at most {MOST_BYTES} are "
            "allowed"
        )
    stops = context.eos_token_ids or (0,)
    for repeats in (True, False):
        walk(backend.matcher(data, stops), context, repeats=repeats)
    return data


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
