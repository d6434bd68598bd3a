"""Streams of server-sent events that loggers' handlers produce, each once for all."""

import asyncio
import contextlib
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import partial

from hookline.pages import EventHandler, PageEvent
from hookline_registry import Failure, isolate

LEAST_SECONDS = 0.1
"""Time between two events, so that there are ten a second at most."""

MAX_WAITING = 16
"""Events that wait for a slow client, which loses the oldest of more."""

MAX_EVENT_BYTES = 1 << 20

COMMENT = b":\n\n"
"""Sent when a handler yields None."""

_LINE_END = re.compile(r"\r\n|\r|\n")

Item = bytes | Failure | None
"""An event on the wire; at the end of a stream, why it failed, or None."""


class Viewer:
    """One client of a broadcast; for the event loop only."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._news = asyncio.Event()
        self._lost = 0

    def put(self, item: Item) -> None:
        """Takes an item, in place of the oldest one if the client is slow."""
        if len(self._items) >= MAX_WAITING and isinstance(item, bytes):
            self._items.popleft()
            self._lost += 1
        self._items.append(item)
        self._news.set()

    async def next(self) -> Item:
        """Waits for an event; what precedes it says how many were lost before it."""
        while not self._items:
            self._news.clear()
            await self._news.wait()
        item, lost, self._lost = self._items.popleft(), self._lost, 0
        if lost and isinstance(item, bytes):
            return b"event: lost\ndata: %d\n\n" % lost + item
        return item


class Broadcast:
    """The events of one handler, which runs in one thread while anybody watches.

    An event is encoded once. Nobody who reads slowly, or not at all, delays the handler
    or the others.
    """

    def __init__(self, handler: EventHandler) -> None:
        self._handler = handler
        self._viewers: set[Viewer] = set()
        self._is_running = False
        self._latest: bytes | None = None
        self._lock = threading.Lock()

    @property
    def num_viewers(self) -> int:
        return len(self._viewers)

    def join(self) -> Viewer:
        """Returns a new viewer, who gets the latest event at once."""
        viewer = Viewer()
        with self._lock:
            self._viewers.add(viewer)
            starts, self._is_running = not self._is_running, True
        if starts:
            self._latest = None
            threading.Thread(
                target=self._run,
                args=(asyncio.get_running_loop(),),
                name="hookline-page-events",
                daemon=True,
            ).start()
        elif self._latest is not None:
            viewer.put(self._latest)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Forgets a viewer; after the last one, the handler ends at its next yield."""
        with self._lock:
            self._viewers.discard(viewer)

    def end(self, item: Failure | None = None) -> None:
        """Ends the streams of all viewers."""
        with self._lock:
            viewers, self._viewers = self._viewers, set()
        for viewer in viewers:
            viewer.put(item)

    def _publish(self, item: bytes) -> None:
        if item is not COMMENT:
            self._latest = item
        for viewer in self._viewers:
            viewer.put(item)

    def _ended(self, item: Failure | None) -> None:
        self._is_running = False
        self.end(item)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        def tell(call: Callable[..., None], item: Item) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(partial(call, item))

        events = isolate(self._handler)
        failure: Failure | None
        if isinstance(events, Generator):
            failure = self._send_all(events, partial(tell, self._publish))
            isolate(events.close)
        elif isinstance(events, Failure):
            failure = events
        else:
            kind = type(events).__name__
            wrong = TypeError(f"a handler is a generator function, not {kind}")
            failure = Failure(wrong)
        if failure is not None:
            is_end = isinstance(failure.error, StopIteration)
            tell(self._ended, None if is_end else failure)

    def _send_all(
        self, events: Iterator[PageEvent | None], publish: Callable[[bytes], None]
    ) -> Failure | None:
        """Returns why no event follows; None if nobody watches any more."""
        while self._is_watched():
            begin = time.monotonic()
            item = isolate(lambda: encoded(next(events)))
            if isinstance(item, Failure):
                return item
            publish(item)
            time.sleep(max(0.0, begin + LEAST_SECONDS - time.monotonic()))
        return None

    def _is_watched(self) -> bool:
        """Whether to go on; who joins after that starts another thread."""
        with self._lock:
            self._is_running = bool(self._viewers)
            return self._is_running


def encoded(event: PageEvent | None) -> bytes:
    """Returns an event's bytes on the wire; raises an error for malformed events."""
    if event is None:
        return COMMENT
    if not isinstance(event, PageEvent):
        raise TypeError(f"handlers yield PageEvent or None, not {type(event).__name__}")
    lines = []
    for name, value in (("event", event.event), ("id", event.id)):
        if value is not None:
            if _LINE_END.search(value) or "\0" in value:
                raise ValueError(f"the event's {name} has a line break or a NUL")
            lines.append(f"{name}: {value}\n")
    lines += [f"data: {line}\n" for line in _LINE_END.split(event.data)]
    found = "".join([*lines, "\n"]).encode()
    if len(found) > MAX_EVENT_BYTES:
        raise ValueError(f"an event of {len(found)} bytes; {MAX_EVENT_BYTES} at most")
    return found
