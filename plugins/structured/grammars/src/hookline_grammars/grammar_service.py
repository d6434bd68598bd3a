"""The grammars of one engine: compiled in another process, matched in this one."""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import BinaryIO

import msgspec

from hookline.exceptions import ConfigError
from hookline.structured_outputs import ReasoningSpan
from hookline_grammars.backend import GrammarMatcher
from hookline_grammars.compile_queue import CompileQueue, Job, Pace, pace_of
from hookline_grammars.compiled import CompiledGrammar
from hookline_grammars.compiling_process import CompilingProcess
from hookline_grammars.messages import ENDED, Compiled, Refused, Setup
from hookline_grammars.own_backends import OwnBackends
from hookline_grammars.settings import GrammarSettings
from hookline_grammars.spec import GrammarSpec
from hookline_host.folders import nameless_file
from hookline_processes.fair_queue import Client
from hookline_registry import Failure, FailureLog, isolate

_log = logging.getLogger(__name__)

_LEAVE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A grammar that has been compiled or refused.

    Attributes:
        key: The specification's key.
        outcome: The grammar; or why there is none.
        seconds: How long it took to compile, without waiting.
        is_broken: Whether there is none because the backend does not work.
        is_limit: Whether there is none because it takes too much time or memory.
        is_loosened: Whether it leaves out what no backend can follow.
    """

    key: bytes
    outcome: CompiledGrammar | str
    seconds: float
    is_broken: bool = False
    is_limit: bool = False
    is_loosened: bool = False

    @property
    def word(self) -> str:
        """The outcome for metrics."""
        if isinstance(self.outcome, CompiledGrammar):
            return "loosened" if self.is_loosened else "compiled"
        if self.is_broken:
            return "failed"
        return "limit" if self.is_limit else "refused"


class GrammarService:
    """Compiles grammars one at a time, in a process with limits.

    Clients share its time (see `CompileQueue`). Each grammar is tried for a short time
    first; one that takes longer waits until no other one has to be tried.

    Nothing is imported or started before the first grammar: tokenizer, backend and
    process are created in a thread of their own, which ends with `close`. A grammar
    that exceeds a limit ends a fork of the process; the next one gets a new fork.
    """

    def __init__(self, settings: GrammarSettings) -> None:
        """Starts nothing yet."""
        self.backend_name = "+".join(settings.backends)
        self._settings = settings
        self._condition = threading.Condition()
        self._queue = CompileQueue()
        self._queued: set[bytes] = set()
        self._on_trial: bytes | None = None
        self._is_wanted = True
        self._dropped: set[bytes] = set()
        self._ended: deque[Ended] = deque()
        self._thread: threading.Thread | None = None
        self._process: CompilingProcess | None = None
        self._is_closed = self._is_ready = False
        self._own: OwnBackends | None = None
        self._crashes = FailureLog("grammar compiler")

    def begin(self, key: bytes, spec: GrammarSpec, client: Client) -> None:
        """Queues a grammar that is not queued yet; `take_ended` returns it later."""
        with self._condition:
            self._dropped.discard(key)
            if key == self._on_trial:
                self._is_wanted = True
                return
            if key in self._queued or self._is_closed:
                return
            self._push(Job(key, spec, client, pace_of(spec)))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="hookline-grammars", daemon=True
                )
                self._thread.start()
            self._condition.notify()

    def drop(self, key: bytes) -> bool:
        """Cancels a grammar that nobody waits for any more.

        Returns:
            False if it is being compiled already, so that `take_ended` returns it.
        """
        with self._condition:
            if key == self._on_trial:
                self._is_wanted = False  # it is not compiled if that takes longer
                return True
            if key not in self._queued:
                return False
            self._dropped.add(key)
            return True

    def take_ended(self) -> list[Ended]:
        """Returns the grammars whose compiling has ended since the last call."""
        found = []
        while self._ended:
            found.append(self._ended.popleft())
        return found

    def matcher(
        self,
        grammar: CompiledGrammar,
        stop_token_ids: Sequence[int],
        reasoning: ReasoningSpan | None = None,
    ) -> GrammarMatcher:
        """Returns a matcher of a grammar that this service has compiled."""
        assert self._own is not None, "it has compiled this grammar"
        return self._own.matcher(grammar, stop_token_ids, reasoning)

    def close(self) -> None:
        """Ends the thread and the process; may be called twice."""
        with self._condition:
            self._is_closed = True
            if self._process is not None:
                self._process.hang_up()
            self._condition.notify()
        if self._thread is not None:
            self._thread.join(_LEAVE_SECONDS)

    # -- the thread --------------------------------------------------------------

    def _work(self) -> None:
        with nameless_file("hookline-grammars") as file:
            made = isolate(self._make, file)
            reason = ""
            if isinstance(made, Failure):
                error = made.error
                reason = str(error) if isinstance(error, ConfigError) else made.summary
                _log.error("structured outputs do not work: %s", reason)
            while (job := self._next()) is not None:
                begun = time.monotonic()
                ended = self._end(job, file, reason)
                self._settle(job, time.monotonic() - begun, is_slow=ended is None)
                if ended is not None:
                    self._ended.append(ended)
        if self._process is not None:
            self._process.close()

    def _end(self, job: Job, file: BinaryIO, reason: str) -> Ended | None:
        """Compiles a grammar, unless there is a reason why nothing can be compiled.

        Returns None if it is given more time later.
        """
        if reason:
            return Ended(job.key, reason, 0.0, is_broken=True)
        ended = isolate(self._compile, job, file)
        if isinstance(ended, Failure):
            _log.error("a grammar was not compiled", exc_info=ended.error)
            return Ended(job.key, ended.summary, 0.0, is_broken=True)
        return ended

    def _push(self, job: Job) -> None:
        self._queued.add(job.key)
        self._queue.push(job)

    def _settle(self, job: Job, seconds: float, *, is_slow: bool) -> None:
        """Takes note of what a grammar has cost, and lets a slow one wait."""
        with self._condition:
            self._queue.charge(job.client, seconds)
            if is_slow and self._is_wanted and not self._is_closed:
                self._push(replace(job, pace=Pace.SLOW))
            self._on_trial = None

    def _next(self) -> Job | None:
        """Waits for the next grammar; returns None once the service is closed."""
        with self._condition:
            while True:
                self._condition.wait_for(lambda: self._is_closed or self._queue.length)
                if self._is_closed:
                    return None
                job = self._queue.pop()
                self._queued.remove(job.key)
                if job.key not in self._dropped:
                    self._on_trial = job.key if job.is_trial else None
                    self._is_wanted = True
                    return job
                self._dropped.remove(job.key)

    def _make(self, file: BinaryIO) -> None:
        """Starts a process, and creates this process's own backend meanwhile."""
        settings = self._settings
        self._own = OwnBackends(settings)  # not before the first grammar
        setup = Setup(
            settings.backends,
            settings.options,
            self._own.tokens,
            settings.vocab_size,
            settings.eos_token_ids,
        )
        file.write(msgspec.msgpack.encode(setup))
        file.flush()
        with suppress(OSError):  # the first grammar tries it again
            self._start(file)
        self._own.backend(0)

    def _start(self, file: BinaryIO) -> CompilingProcess | None:
        """Starts a process, unless the service has been closed."""
        with self._condition:
            if self._is_closed:
                return None
            self._process = CompilingProcess(file.fileno(), self._settings.limits)
            self._is_ready = False
            return self._process

    def _compile(self, job: Job, file: BinaryIO) -> Ended | None:
        key = job.key
        process = self._process
        if process is not None and process.has_ended:
            process.close()
        if process is None or process.has_ended:
            process = self._start(file)
        if process is None:
            raise RuntimeError("the engine is being stopped")
        if not self._is_ready:
            if reason := process.wait_until_ready():
                raise RuntimeError(f"the grammar backend cannot be used: {reason}")
            self._is_ready = True
        match process.compile(job.spec, is_trial=job.is_trial):
            case Compiled(data, seconds, backend, is_loosened):
                # Read here, so that no step has to.
                stops = self._settings.eos_token_ids or (0,)
                compiled = CompiledGrammar(key, data, backend)
                self.matcher(compiled, stops)
                return Ended(key, compiled, seconds, is_loosened=is_loosened)
            case Refused(is_slow=True) if job.is_trial:
                return None
            case Refused(reason, seconds, is_limit):
                if reason.endswith(ENDED):
                    self._crashes.log(("crashed",), reason)
                return Ended(key, reason, seconds, is_limit=is_limit)
