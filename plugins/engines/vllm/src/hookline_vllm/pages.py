"""The pages of loggers, served below `/hookline` by vLLM's own server."""

import asyncio
import mimetypes
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs

from hookline.frontend.observing import RemotePages, TellFirst
from hookline.pages import (
    EventHandler,
    PageHandler,
    PageRequest,
    PageResponse,
    Routes,
    RoutesOf,
)
from hookline_registry import Failure, isolate
from hookline_vllm.asgi import Receive, Scope, Send, body_of, left

if TYPE_CHECKING:
    from hookline_server.page_events import Broadcast
    from hookline_vllm.forwarding import Forwarding

PREFIX = "/hookline"
MAX_THREADS = 8
MAX_SECONDS = 10.0
MAX_VIEWERS = 32


class Observed(Protocol):
    """What registers pages, and brings a logger up to date for its page."""

    def add_routes(
        self, routes_of: RoutesOf, tell_first: TellFirst
    ) -> RemotePages | None: ...

    def settle(self, logger: str) -> float: ...


@dataclass(frozen=True, slots=True)
class _Page:
    method: str
    path: str
    pattern: re.Pattern[str]
    logger: str
    handler: PageHandler
    broadcast: "Broadcast | None" = None


class Pages:
    """The pages that loggers have registered."""

    def __init__(self) -> None:
        self._pages: list[_Page] = []
        self._heads: Collection[str] = ()
        self._folders: Collection[str] = ()
        self._observers: Observed | None = None
        self._forwarding: Forwarding | None = None
        self._threads = threading.BoundedSemaphore(MAX_THREADS)

    def open(self, observers: Observed, tell_first: TellFirst) -> None:
        """Lets the loggers register their pages, here or in a process of their own."""

        def routes_of(logger: str) -> Routes:
            return _LoggerRoutes(logger, self._pages)

        remote = observers.add_routes(routes_of, tell_first)
        paths: Sequence[str] = [page.path for page in self._pages]
        if remote is not None:
            from hookline_vllm.forwarding import Forwarding  # noqa: PLC0415 - aiohttp

            self._forwarding, paths = Forwarding(remote), remote.paths
        self._heads = {_head(path) for path in paths}
        self._folders = {path[:-1] for path in paths if path.endswith("/")}
        self._observers = observers

    def takes(self, scope: Scope) -> bool:
        """Whether it is for a page: below `PREFIX`, or where vLLM has no route."""
        path = str(scope["path"])
        if path.startswith(f"{PREFIX}/"):
            return True
        return _head(path) in self._heads and not _is_vllms(scope)

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers an HTTP request that it takes."""
        path = str(scope["path"]).removeprefix(PREFIX)
        if path in self._folders:
            await _answer(_moved(path), scope, send)
            return
        if self._forwarding is not None:
            failure = await self._forwarding.serve(scope, path, receive, send)
            if failure is not None:
                await _answer(_error(503, failure), scope, send)
            return
        for page in self._pages:
            stream = page.broadcast
            if stream is not None and page.pattern.fullmatch(path):
                if stream.num_viewers < MAX_VIEWERS:
                    await send_events(stream, receive, send)
                    return
                break
        await _answer(await self._made_for(scope, receive), scope, send)

    async def _made_for(self, scope: Scope, receive: Receive) -> PageResponse:
        path = str(scope["path"]).removeprefix(PREFIX)
        method = "GET" if scope["method"] == "HEAD" else str(scope["method"])
        for page in self._pages:
            found = page.pattern.fullmatch(path)
            if found is None or page.method != method:
                continue
            if (body := await body_of(receive)) is None:
                return _error(413, "the body is too large")
            request = _request(scope, body, found.groupdict())
            return await self._in_thread(page, request)
        if self._observers is None:
            return _error(503, "the loggers have not started")
        return _error(404, f"no logger has a page {path}")

    async def _in_thread(self, page: _Page, request: PageRequest) -> PageResponse:
        """Calls a handler in a thread that may hang, of which there are few."""
        if not self._threads.acquire(blocking=False):
            return _error(503, "too many pages are being made")
        loop = asyncio.get_running_loop()
        made: asyncio.Future[PageResponse] = loop.create_future()

        def make() -> None:
            try:
                response = isolate(self._made, page, request)
            finally:
                self._threads.release()
            if isinstance(response, Failure):
                response = _error(500, f"the page of {page.logger} has failed")
            loop.call_soon_threadsafe(_settle_future, made, response)

        threading.Thread(target=make, name="hookline-page", daemon=True).start()
        try:
            return await asyncio.wait_for(made, MAX_SECONDS)
        except TimeoutError:
            return _error(503, f"the page of {page.logger} takes too long")

    def _made(self, page: _Page, request: PageRequest) -> PageResponse:
        assert self._observers is not None, "it has registered the page"
        behind = self._observers.settle(page.logger)
        return page.handler(replace(request, behind_seconds=behind))


class _LoggerRoutes:
    """Where one logger registers its pages."""

    def __init__(self, logger: str, pages: list[_Page]) -> None:
        self._logger = logger
        self._pages = pages

    def get(self, path: str, handler: PageHandler) -> None:
        self._add("GET", path, handler)

    def post(self, path: str, handler: PageHandler) -> None:
        self._add("POST", path, handler)

    def events(self, path: str, handler: EventHandler) -> None:
        """Streams events if the server's part for that is installed."""
        broadcast = isolate(_broadcast, handler)
        if not isinstance(broadcast, Failure):
            self._add("GET", path, _no_page, broadcast)

    def files(self, path: str, folder: Path, *, is_public: bool = False) -> None:  # noqa: ARG002
        folder_path = path.rstrip("/") + "/"

        def file(request: PageRequest) -> PageResponse:
            found = folder / (request.path_values.get("file") or "index.html")
            if not found.is_file() or found.is_symlink():
                return _error(404, "no such file")
            kind = mimetypes.guess_type(found.name)[0] or "application/octet-stream"
            return PageResponse(body=found.read_bytes(), content_type=kind)

        self._add("GET", folder_path, file, below="{file:(?:[^/.][^/]*)?}")

    def _add(
        self,
        method: str,
        path: str,
        handler: PageHandler,
        broadcast: "Broadcast | None" = None,
        *,
        below: str = "",
    ) -> None:
        pattern = re.compile(_pattern(path + below))
        page = _Page(method, path, pattern, self._logger, handler, broadcast)
        self._pages.append(page)


def _broadcast(handler: EventHandler) -> "Broadcast":
    from hookline_server.page_events import Broadcast  # noqa: PLC0415 - if it is there

    return Broadcast(handler)


def _no_page(_: PageRequest) -> PageResponse:
    return _error(503, "too many watch")


async def send_events(broadcast: "Broadcast", receive: Receive, send: Send) -> None:
    """Sends events until the handler ends or the client leaves."""
    viewer = broadcast.join()
    leaving = asyncio.ensure_future(left(receive))
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
    try:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while not leaving.done():  # handlers yield at least once a second
            item = await asyncio.wait_for(viewer.next(), MAX_SECONDS)
            if not isinstance(item, bytes):
                break
            body = {"type": "http.response.body", "body": item, "more_body": True}
            await send(body)
        await send({"type": "http.response.body", "body": b""})
    finally:
        leaving.cancel()
        broadcast.leave(viewer)


def _pattern(path: str) -> str:
    """Returns a pattern of a path in aiohttp's syntax."""
    parts = re.split(r"(\{\w+(?::[^{}]+)?\})", path)
    made = []
    for part in parts:
        if part.startswith("{"):
            name, _, pattern = part[1:-1].partition(":")
            made.append(f"(?P<{name}>{pattern or '[^/]+'})")
        else:
            made.append(re.escape(part))
    return "".join(made)


def _request(scope: Scope, body: bytes, values: Mapping[str, Any]) -> PageRequest:
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"), True)
    headers = {
        name.decode("latin-1").lower(): value.decode("latin-1")
        for name, value in scope["headers"]
    }
    return PageRequest(
        headers=headers,
        query={name: found[-1] for name, found in query.items()},
        query_values={name: tuple(found) for name, found in query.items()},
        body=body,
        path_values={name: value or "" for name, value in values.items()},
    )


def _head(path: str) -> str:
    """Returns the first part of a path."""
    return path.split("/", 2)[1] if "/" in path else ""


def _is_vllms(scope: Scope) -> bool:
    """Whether a route of the application answers, maybe with another method."""
    routes = scope["app"].router.routes
    return any(each.matches(scope)[0].value for each in routes)


async def _answer(response: PageResponse, scope: Scope, send: Send) -> None:
    headers = {
        "Content-Type": response.content_type,
        "Content-Length": str(len(response.body)),
        **response.headers,
    }
    raw = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in headers.items()
    ]
    start = {"type": "http.response.start", "status": response.status, "headers": raw}
    await send(start)
    body = b"" if scope["method"] == "HEAD" else response.body
    await send({"type": "http.response.body", "body": body})


def _settle_future(
    future: "asyncio.Future[PageResponse]", response: PageResponse
) -> None:
    if not future.done():
        future.set_result(response)


def _moved(path: str) -> PageResponse:
    """Leads to a folder, below the prefix or not, whose links are relative."""
    return PageResponse(
        body=b"",
        content_type="text/plain",
        status=308,
        headers={"Location": f"{path.rpartition('/')[2]}/"},
    )


def _error(status: int, message: str) -> PageResponse:
    body = f"{message}\n".encode()
    return PageResponse(
        body=body, content_type="text/plain; charset=utf-8", status=status
    )
