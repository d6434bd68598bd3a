"""Streams of server-sent events that loggers' handlers produce in threads."""

import asyncio
import contextlib
import re
import threading
from collections.abc import Callable, Generator, Iterator
from functools import partial

from hookline.pages import EventHandler, PageEvent, PageRequest
from hookline_registry import Failure, isolate

MAX_QUEUED = 64
"""Events that wait for a slow client; its handler then waits for room."""

MAX_EVENT_BYTES = 1 << 20

COMMENT = b":\n\n"
"""Sent when a handler yields None: the write fails if the client has left."""

_LINE_END = re.compile(r"\r\n|\r|\n")

Item = bytes | Failure | None


class PageEventStream:
    """The events of one client. `run` is for a thread, the rest for the event loop."""

    def __init__(self, handler: EventHandler, request: PageRequest) -> None:
        self._handler = handler
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Item] = asyncio.Queue()
        self._room = threading.Semaphore(MAX_QUEUED)
        self._stopped = threading.Event()

    async def next(self) -> Item:
        """Waits for the next event; returns its bytes, or None at the end."""
        item = await self._items.get()
        self._room.release()
        return item

    def stop(self) -> None:
        """Ends the stream at once; the thread ends when the handler yields again."""
        self._stopped.set()
        self._room.release()
        self._items.put_nowait(None)

    def run(self, ended: Callable[[], None]) -> None:
        """Runs the handler to its end, then has the event loop call `ended`."""
        self._tell(self._items.put_nowait, self._produce())
        self._tell(ended)

    def _produce(self) -> Failure | None:
        events = isolate(self._handler, self._request)
        if isinstance(events, Failure):
            return events
        if not isinstance(events, Generator):
            kind = type(events).__name__
            return Failure(TypeError(f"a handler is a generator function, not {kind}"))
        failure = self._send_all(events)
        isolate(events.close)
        return failure

    def _send_all(self, events: Iterator[PageEvent | None]) -> Failure | None:
        while True:
            item = isolate(lambda: encoded(next(events)))
            if isinstance(item, Failure):
                return None if isinstance(item.error, StopIteration) else item
            self._room.acquire()
            if self._stopped.is_set():
                return None
            self._tell(self._items.put_nowait, item)

    def _tell(self, call: Callable[..., None], *arguments: Item) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(partial(call, *arguments))


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
