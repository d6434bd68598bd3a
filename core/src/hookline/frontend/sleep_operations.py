"""Times calls that put engines to sleep or wake them up."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from hookline.clock import NANOSECONDS, Clock
from hookline.core.commands import EngineCommand, Sleep, WakeUp
from hookline.front_end_parts import SleepOperation, SleepOperationName

Report = Callable[[tuple[SleepOperation]], None]


class SleepOperations:
    """Reports each call when it begins, and when no engine's reply is to come any more.

    For one thread, which must also settle the replies. A call has a reply for each
    engine; it ends with the last of them, good or bad, or when its caller gives up.
    """

    def __init__(self, clock: Clock, report: Report) -> None:
        self._clock = clock
        self._report = report
        self._in_flight: dict[SleepOperationName, int] = {"sleep": 0, "wake_up": 0}

    def begin(
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
