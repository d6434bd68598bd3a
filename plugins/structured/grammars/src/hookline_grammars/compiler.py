"""Lets the backends try a grammar one after the other, within one limit of time."""

import signal
import socket
import time
from collections.abc import Callable, Sequence
from functools import cache, partial

import msgspec

from hookline_grammars.compiling_fork import CompilingFork
from hookline_grammars.loosening import loosened
from hookline_grammars.messages import (
    ENDED,
    Attempt,
    Compiled,
    Order,
    Refused,
    Reply,
    too_slow,
)
from hookline_grammars.spec import GrammarSpec
from hookline_processes.owner import Owner

TRIAL_SHARE = 0.2
"""Part of a grammar's time that a first trial may take."""
_LEAST_SECONDS = 0.01
_SHARE = 0.7
"""Part of the remaining time that a backend gets if there is another one after it."""
_LOOSENING = 2.0
"""Time for finding out what to leave out of a grammar, in limits of one grammar."""


class Compiler:
    """The fork that compiles, and is replaced whenever it ends."""

    def __init__(
        self,
        names: Sequence[str],
        serve: Callable[[Owner], None],
        cpu_seconds: float,
    ) -> None:
        """Forks nothing yet.

        Args:
            names: The backends.
            serve: Answers each `Attempt` with a `Reply`; runs in the fork.
            cpu_seconds: Processor time for one grammar, of all backends together.
        """
        self._names = names
        self._serve = serve
        self._cpu_seconds = cpu_seconds
        self._left = self._spent = 0.0
        self._fork: CompilingFork | None = None
        self._decoder: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)

    def reply(self, order: Order, owner: socket.socket) -> Compiled | Refused:
        """Returns what the first backend that takes the grammar makes of it.

        A backend that exceeds its share of the time, or its memory, only refuses the
        grammar: what explodes in one of them may be small in the next. In a trial, what
        exceeds the time is refused at once: the next one must not take it over then.
        A grammar that all of them refuse is loosened, if it may be.
        """
        self._left, self._spent = self._cpu_seconds, 0.0
        if order.is_trial:
            self._left *= TRIAL_SHARE
        everyone = range(len(self._names))
        reply = self._tried(order, owner, everyone)
        if isinstance(reply, Compiled) or reply.is_slow or not order.spec.loose:
            return reply
        if order.is_trial:  # there is more time later
            return msgspec.structs.replace(reply, is_slow=True)
        return self._loosened(order, owner) or reply

    def _tried(
        self, order: Order, owner: socket.socket, indices: Sequence[int]
    ) -> Compiled | Refused:
        """Returns what the first of these backends makes of a grammar."""
        reasons: list[str] = []
        is_limit = False
        for index in indices:
            is_last = index == indices[-1]
            left = self._left
            share = left if is_last or order.is_trial else left * _SHARE
            share = max(share, _LEAST_SECONDS)
            begun = time.perf_counter()
            reply = self._attempt(Attempt(index, share, order.spec), owner)
            seconds = time.perf_counter() - begun
            self._spent += seconds
            self._left -= min(share, seconds)
            if isinstance(reply, Compiled):
                return Compiled(reply.data, self._spent, reply.backend)
            if order.is_trial and reply.is_slow:
                return Refused(reply.reason, self._spent, is_limit=True, is_slow=True)
            reasons.append(self._reason(index, reply))
            is_limit |= reply.is_limit
            if reply.is_final:
                break
        return Refused("; ".join(reasons), self._spent, is_limit=is_limit)

    def _loosened(self, order: Order, owner: socket.socket) -> Compiled | None:
        """Returns what a backend makes of a grammar that lacks as little as possible.

        It lacks more if the time for that has passed; None if no backend takes it.
        """
        until = time.perf_counter() + _LOOSENING * self._cpu_seconds

        def compiled(spec: GrammarSpec, index: int) -> Compiled | None:
            self._left = self._cpu_seconds
            attempt = msgspec.structs.replace(order, spec=spec)
            reply = self._tried(attempt, owner, (index,))
            return reply if isinstance(reply, Compiled) else None

        @cache  # a schema may stand in several places
        def takes(index: int, spec: GrammarSpec) -> bool:
            return time.perf_counter() < until and compiled(spec, index) is not None

        everyone = range(len(self._names))
        try:
            found = [
                (*loosened(order.spec, partial(takes, each)), each) for each in everyone
            ]
        except (LookupError, TypeError, ValueError):  # a pointer to nothing
            return None
        for spec, _, index in sorted(found, key=lambda each: each[1]):
            if (reply := compiled(spec, index)) is not None:
                return msgspec.structs.replace(reply, is_loosened=True)
        return None

    def kill(self) -> None:
        """Kills the fork, from another thread, before the process ends."""
        if self._fork is not None:
            self._fork.kill()

    def close(self) -> None:
        """Ends the fork."""
        if self._fork is not None:
            self._fork.stop()

    def _attempt(self, attempt: Attempt, owner: socket.socket) -> Compiled | Refused:
        self._fork = self._fork or CompilingFork(self._serve)
        reply = self._fork.reply(msgspec.msgpack.encode(attempt), owner)
        if isinstance(reply, bytes):
            decoded = self._decoder.decode(reply)
            assert isinstance(decoded, Compiled | Refused)
            return decoded
        self._fork = None
        is_slow = reply == -signal.SIGPROF
        reason = too_slow(attempt.cpu_seconds) if is_slow else ENDED
        return Refused(reason, 0.0, is_limit=True, is_slow=is_slow)

    def _reason(self, index: int, reply: Refused) -> str:
        """Returns why a backend has refused; its own reasons name it."""
        if reply.is_limit and len(self._names) > 1:
            return f"{self._names[index]}: {reply.reason}"
        return reply.reason
