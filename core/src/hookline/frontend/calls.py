"""Calls to engines: those whose replies are still to come, and how long some take."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from hookline.clock import NANOSECONDS, Clock
from hookline.engine.commands import Call, EngineCommand, Reply, Sleep, WakeUp
from hookline.exceptions import CommandError, HooklineError
from hookline.front_end_parts import SleepOperation, SleepOperationName

R = TypeVar("R")
Report = Callable[[tuple[SleepOperation]], None]
CALL_SECONDS = 60.0
"""Default deadline of a call."""


class PendingCalls:
    """Matches replies with calls; for one thread."""

    def __init__(self, client_index: int) -> None:
        self._client_index = client_index
        self._last_number = 0
        self._pending: dict[int, tuple[int, str, Future[Any]]] = {}

    def open(
        self, engine_index: int, command: EngineCommand[R]
    ) -> tuple[Call, Future[R]]:
        """Makes a call, and the future that its reply settles."""
        self._last_number += 1
        future: Future[R] = Future()
        name = type(command).__name__
        self._pending[self._last_number] = (engine_index, name, future)
        return Call(self._client_index, self._last_number, cast("Any", command)), future

    def settle(self, reply: Reply) -> None:
        """Takes a reply; one whose call was abandoned is ignored."""
        if (pending := self._pending.pop(reply.number, None)) is None:
            return
        _, name, future = pending
        if reply.error is None:
            future.set_result(reply.value)
        else:
            future.set_exception(CommandError(name, reply.error))

    def has_open(self, engine_index: int) -> bool:
        """Whether a reply of the engine is still to come."""
        return any(index == engine_index for index, _, _ in self._pending.values())

    def fail(self, engine_index: int, error: HooklineError) -> None:
        """Ends all calls to an engine with an error."""
        for number, (index, _, future) in list(self._pending.items()):
            if index == engine_index:
                del self._pending[number]
                future.set_exception(error)

    def abandon(self, futures: Collection[Future[R]]) -> None:
        """Forgets calls whose caller does not wait any longer."""
        for number, (_, _, future) in list(self._pending.items()):
            if future in futures:
                del self._pending[number]
                future.cancel()


class SleepOperations:
    """Reports each call when it begins, and when no engine's reply is to come any more.

    For one thread, which must also settle the replies. A call has a reply for each
    engine; it ends with the last of them, good or bad, or when its caller gives up.
    """

    def __init__(self, clock: Clock, report: Report) -> None:
        self._clock = clock
        self._report = report
        self._in_flight: dict[SleepOperationName, int] = {"sleep": 0, "wake_up": 0}

    def start_call(
        self, command: EngineCommand[Any], replies: Sequence[Future[Any]]
    ) -> None:
        """Times a call; not one of another command, or that no engine replies to."""
        if not replies or not isinstance(command, Sleep | WakeUp):
            return
        name: SleepOperationName = "sleep" if isinstance(command, Sleep) else "wake_up"
        began, open_replies = self._clock.now(), len(replies)

        def one_ended(_: Future[Any]) -> None:
            nonlocal open_replies
            open_replies -= 1
            if not open_replies:
                seconds = (self._clock.now() - began) / NANOSECONDS
                self._change(name, -1, seconds)

        self._change(name, 1, None)
        for reply in replies:
            reply.add_done_callback(one_ended)

    def _change(self, name: SleepOperationName, by: int, seconds: float | None) -> None:
        self._in_flight[name] += by
        in_flight = self._in_flight[name]
        part = SleepOperation(operation=name, in_flight=in_flight, seconds=seconds)
        self._report((part,))
