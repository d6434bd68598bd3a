"""Sends releases of kept blocks to producers until they are confirmed."""

from dataclasses import dataclass

from hookline_p2p.params import Source
from hookline_p2p.transport import Transport
from hookline_p2p.wire import Release, encode

_RETRIES = 10
"""Divides the timeout into pauses between attempts; each pause doubles."""
_MOST = 1024


@dataclass(slots=True)
class _Pending:
    """Times of a release, in seconds; `until` is None before the first attempt."""

    until: float | None = None
    due_at: float = 0.0
    pause: float = 0.0


class Releases:
    """The releases that are not confirmed; for one thread.

    A producer that cannot be reached keeps its blocks until its own deadline.
    """

    def __init__(self, transport: Transport, timeout_seconds: float) -> None:
        self._transport = transport
        self._timeout = timeout_seconds
        self._open: dict[Source, _Pending] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, source: Source) -> None:
        """Releases the blocks of a source."""
        if len(self._open) < _MOST:
            self._open.setdefault(source, _Pending())

    def confirmed(self, source: Source) -> None:
        """Ends a release that the producer has confirmed."""
        self._open.pop(source, None)

    def tick(self, now: float) -> None:
        """Sends the releases that are due."""
        for source, pending in list(self._open.items()):
            if pending.until is None:
                pending.until = now + self._timeout
                pending.pause = self._timeout / _RETRIES
            elif now > pending.until:
                del self._open[source]
                continue
            if pending.due_at <= now:
                pending.due_at, pending.pause = now + pending.pause, 2 * pending.pause
                release = Release(source.peer.engine_id, source.transfer_id)
                self._transport.send(source.peer, encode(release))
