"""Calls to engines whose replies are still to come."""

from collections.abc import Collection
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from hookline.core.commands import Call, EngineCommand, Reply
from hookline.exceptions import CommandError, HooklineError

R = TypeVar("R")
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
