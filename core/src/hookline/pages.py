"""Pages that loggers add to the server: what handlers take and return."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """An HTTP request for a page.

    Attributes:
        headers: Header values by lower-case name.
        query: The last value of each parameter.
        query_values: All values of each parameter.
        body: Body of a POST, decoded; empty for other methods.
        path_values: Values of the path's parameters, as in `/why/{id}`.
        behind_seconds: Age of the oldest news that the logger had not got in time for
            this page; 0 if it had got all.
    """

    headers: Mapping[str, str]
    query: Mapping[str, str]
    query_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    body: bytes = b""
    path_values: Mapping[str, str] = field(default_factory=dict)
    behind_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PageResponse:
    """The response to a request for a page.

    Attributes:
        body: Bytes; text must be encoded.
        content_type: MIME type with parameters, such as `text/html; charset=utf-8`.
        status: HTTP status.
        headers: Headers in addition to Content-Type, such as Content-Encoding for a
            body that the handler has compressed.
    """

    body: bytes
    content_type: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEvent:
    """One server-sent event.

    Attributes:
        data: Text; may have several lines.
        event: Name that the client listens for; None for `message`.
        id: Id that a reconnecting client sends as `Last-Event-ID`.
    """

    data: str
    event: str | None = None
    id: str | None = None


PageHandler = Callable[[PageRequest], PageResponse]

EventHandler = Callable[[], Iterator[PageEvent | None]]
"""A generator function that yields events, and None while it waits for one.

One generator runs in a thread for all who watch, as long as anybody does; then it is
closed (`GeneratorExit`) at its next yield, so it must yield at least once a second.
"""


class PageRoute(NamedTuple):
    """A page that a logger has registered.

    Attributes:
        method: HTTP method; `GET` includes HEAD.
        path: Path in aiohttp's syntax, which may have a part in braces.
        is_public: Whether it needs no API key.
    """

    method: str
    path: str
    is_public: bool = False


class Routes(Protocol):
    """Where a logger registers pages, in the hook `add_routes`.

    Each method raises `ValueError` if something else is served at the path.
    """

    def get(self, path: str, handler: PageHandler) -> None:
        """Serves GET requests; the handler runs in a thread, not on the event loop."""

    def post(self, path: str, handler: PageHandler) -> None:
        """Serves POST requests, whose bodies have the server's size limit."""

    def events(self, path: str, handler: EventHandler) -> None:
        """Streams what the handler yields to all clients; slow ones lose events."""

    def files(self, path: str, folder: Path, *, is_public: bool = False) -> None:
        """Serves the files of a folder below `path`, `index.html` at `path/` itself.

        Public ones need no key, and browsers let them load nothing but their own.
        Hidden files, and links that lead out of the folder, are not served.
        """


RoutesOf = Callable[[str], Routes]
"""Returns the routes of a logger, by its name: its pages have threads of their own."""
