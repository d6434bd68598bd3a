"""Compiles grammars: `python -m hookline_grammars.process FD SECONDS BYTES`.

FD is a file with the `Setup`. Orders come from the engine that owns the
process, and replies go there. A fork of it compiles: the kernel ends that when a
grammar takes more than SECONDS of processor time, whatever the backend does, and
refuses memory beyond BYTES.
"""

import gc
import os
import sys
import time
from collections.abc import Sequence
from functools import partial

import msgspec

from hookline_grammars.backend import (
    BackendContext,
    GrammarBackend,
    RefusedGrammarError,
)
from hookline_grammars.compiler import Compiler
from hookline_grammars.loading import make_backend
from hookline_grammars.messages import (
    Attempt,
    Broken,
    Compiled,
    Order,
    Ready,
    Refused,
    Reply,
    Setup,
)
from hookline_grammars.spec import GrammarSpec
from hookline_grammars.trial import DeadEndError, Trial, Way
from hookline_processes.limits import (
    limit_memory,
    processor_time,
    whole_file,
)
from hookline_processes.owner import Owner, run_supervised
from hookline_registry import Failure, isolate

_REAP_SECONDS = 0.5
_NICENESS = 5
"""Lets the engine's steps go first."""
MOST_BYTES = 32 * 2**20
"""Maximum size of a compiled grammar."""
_MOST_REASON = 500
"""Maximum characters of a backend's reason."""


def main(owner: Owner, arguments: Sequence[str]) -> int:
    """Has grammars compiled until the engine hangs up, or has ended."""
    setup_fd, cpu_seconds, memory_bytes = arguments
    os.nice(_NICENESS)
    setup = msgspec.msgpack.decode(whole_file(int(setup_fd)), type=Setup)
    context = _context(setup)
    backends = isolate(_backends, setup.backends, context)
    if isinstance(backends, Failure):
        owner.send_bytes(msgspec.msgpack.encode(Broken(backends.summary)))
        return 0
    serve = partial(_serve, backends, context, int(memory_bytes))
    compiler = Compiler(setup.backends, serve, float(cpu_seconds))
    owner.watch(partial(_end, compiler))
    gc.freeze()  # so that forks share these objects
    owner.send_bytes(msgspec.msgpack.encode(Ready()))
    decoder = msgspec.msgpack.Decoder(Order)
    while (data := owner.receive_bytes()) is not None:
        reply = compiler.reply(decoder.decode(data), owner.channel)
        owner.send_bytes(msgspec.msgpack.encode(reply))
    compiler.close()
    return 0


def _end(compiler: Compiler) -> None:
    """Kills the fork, and leaves the main thread a moment to reap it."""
    compiler.kill()
    time.sleep(_REAP_SECONDS)


def _serve(
    backends: Sequence[GrammarBackend],
    context: BackendContext,
    memory_bytes: int,
    owner: Owner,
) -> None:
    """Compiles the grammars that arrive; runs in the fork."""
    limit_memory(memory_bytes)
    decoder = msgspec.msgpack.Decoder(Attempt)
    trial = Trial(context)
    while (data := owner.receive_bytes()) is not None:
        attempt = decoder.decode(data)
        reply = _compile(backends[attempt.backend], attempt, trial)
        owner.send_bytes(msgspec.msgpack.encode(reply))


def _context(setup: Setup) -> BackendContext:
    return BackendContext(
        tokens=setup.tokens,
        vocab_size=setup.vocab_size,
        eos_token_ids=setup.eos_token_ids,
        options=setup.options,
    )


def _backends(names: Sequence[str], context: BackendContext) -> list[GrammarBackend]:
    return [make_backend(name, context) for name in names]


def _compile(backend: GrammarBackend, attempt: Attempt, trial: Trial) -> Reply:
    begun = time.perf_counter()
    with processor_time(attempt.cpu_seconds):
        outcome = isolate(compiled_and_tried, backend, attempt.spec, trial)
    seconds = time.perf_counter() - begun
    if not isinstance(outcome, Failure):
        return Compiled(outcome, seconds, attempt.backend)
    error = outcome.error
    if isinstance(error, MemoryError):
        reason = "compiling it takes too much memory"
        return Refused(reason, seconds, is_limit=True)
    if isinstance(error, TimeoutError):
        reason = "following it takes too much processor time"
        return Refused(reason, seconds, is_limit=True, is_slow=True)
    is_own = isinstance(error, RefusedGrammarError)
    reason = str(error) if is_own else outcome.summary
    is_final = isinstance(error, DeadEndError) or not is_own
    return Refused(reason[:_MOST_REASON], seconds, is_final=is_final)


def compiled_and_tried(
    backend: GrammarBackend, spec: GrammarSpec, trial: Trial
) -> bytes:
    """Compiles a grammar and follows it for a while.

    Some grammars compile at once, but slow down as the text grows.
    """
    data = backend.compile(spec)
    if len(data) > MOST_BYTES:
        raise RefusedGrammarError(
            f"it takes {len(data)} bytes once compiled, and at most {MOST_BYTES} are "
            "allowed"
        )
    for way in Way:
        trial.walk(backend.matcher(data, trial.stop_token_ids), way)
    return data


if __name__ == "__main__":
    sys.exit(run_supervised(main))
