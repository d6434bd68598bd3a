"""Tells producers to let blocks go, until they have heard it."""

from dataclasses import dataclass

from hookline_p2p.params import Source
from hookline_p2p.transport import Transport
from hookline_p2p.wire import Release, encode

_RETRIES = 10
"""Before it is given up; fewer, for pauses grow."""
_MOST = 1024


@dataclass(slots=True)
class _Told:
    """How long, and when next; None until it is told for the first time."""

    until: float | None = None
    due_at: float = 0.0
    pause: float = 0.0


class Releases:
    """One engine's; one thread uses it.

    A producer that cannot be reached keeps its blocks until its own deadline.
    """

    def __init__(self, transport: Transport, timeout_seconds: float) -> None:
        self._transport = transport
        self._timeout = timeout_seconds
        self._open: dict[Source, _Told] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, source: Source) -> None:
        """Its blocks are not wanted any longer."""
        if len(self._open) < _MOST:
            self._open.setdefault(source, _Told())

    def confirmed(self, source: Source) -> None:
        """The producer has heard it."""
        self._open.pop(source, None)

    def tick(self, now: float) -> None:
        """Tells what is due."""
        for source, told in list(self._open.items()):
            if told.until is None:
                told.until = now + self._timeout
                told.pause = self._timeout / _RETRIES
            elif now > told.until:
                del self._open[source]
                continue
            if told.due_at <= now:
                told.due_at, told.pause = now + told.pause, 2 * told.pause
                release = Release(source.peer.engine_id, source.transfer_id)
                self._transport.send(source.peer, encode(release))
