"""Reports the parts of a front end that have changed, once per second."""

import asyncio
from collections.abc import Callable

from hookline.front_end_parts import FrontEndPart

REPORT_SECONDS = 1.0

Report = Callable[[tuple[FrontEndPart, ...]], None]
ReadPart = Callable[[], FrontEndPart]


class FrontEndReporter:
    """Reads the parts of a front end on its event loop and reports those that changed.

    Call `close` at the end.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, report: Report) -> None:
        self._loop = loop
        self._report = report
        self._parts: dict[ReadPart, FrontEndPart | None] = {}
        self._next: asyncio.TimerHandle | None = None

    def add(self, read: ReadPart) -> None:
        """Reports what `read` returns, now and whenever it differs from the last."""
        self._parts[read] = None
        self.report()

    def close(self) -> None:
        """Reports the last changes and ends."""
        if self._next is not None:
            self.report()
            self._next.cancel()
            self._next = None

    def report(self) -> None:
        """Reports the changes now, and again in a second."""
        if self._next is not None:
            self._next.cancel()
        self._next = self._loop.call_later(REPORT_SECONDS, self.report)
        read = {each: each() for each in self._parts}
        changed = [part for each, part in read.items() if part != self._parts[each]]
        self._parts.update(read)
        if changed:
            self._report(tuple(changed))
