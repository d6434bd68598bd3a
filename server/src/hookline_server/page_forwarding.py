"""Forwards requests for loggers' pages to the observer process."""

from collections.abc import AsyncIterator, Mapping
from functools import partial

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from hookline.frontend.observing import RemotePages
from hookline.pages import PageRoute
from hookline_registry import BrokenPluginError
from hookline_server.api_error import ApiError
from hookline_server.errors import Page
from hookline_server.pages import Pages
from hookline_server.request_body import read_body
from hookline_server.sse import sent_of

MOST_OPEN = 512
"""Maximum number of requests that are being forwarded; more get a 503."""

CONNECT_SECONDS = 2.0
SILENT_SECONDS = 15.0
"""Longer than pages may take in the observer process, and than streams are silent."""

LARGEST_WHOLE = 8 << 20
"""Size of a page from which on it is passed on in parts."""

_OF_CONNECTION = frozenset(
    {
        "connection",
        "content-length",
        "date",
        "expect",
        "host",
        "keep-alive",
        "server",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that concern one connection only."""

_OF_BODY = "content-encoding"
"""A request's body is decoded here, a response's is passed on as it is."""

_BODILESS = (204, 304)


def forward_pages(app: web.Application, pages: Pages, remote: RemotePages) -> None:
    """Serves the pages of another process.

    Args:
        app: The application that serves pages.
        pages: Its pages.
        remote: Those of the other process.

    Raises:
        BrokenPluginError: The server serves a path itself.
    """
    forwarding = PageForwarding(remote)
    app.cleanup_ctx.append(forwarding.lifetime)
    for route in remote.routes:
        try:
            serve = partial(forwarding.serve, route)
            pages.add(route, serve)
        except ValueError as error:
            raise BrokenPluginError(route.path, str(error)) from error
    pages.paths.extend(remote.paths)


class PageForwarding:
    """Passes requests on to another process, and its responses back."""

    def __init__(self, remote: RemotePages) -> None:
        self._remote = remote
        self._session: aiohttp.ClientSession | None = None
        self._open = 0

    async def lifetime(self, _: web.Application) -> AsyncIterator[None]:
        """Holds the connections; for an application's `cleanup_ctx`."""
        timeout = aiohttp.ClientTimeout(
            total=None, connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS
        )
        async with aiohttp.ClientSession(
            "http://observer",
            connector=aiohttp.UnixConnector(self._remote.socket, limit=MOST_OPEN),
            timeout=timeout,
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
        ) as self._session:
            yield

    async def serve(self, route: PageRoute, request: web.Request) -> web.StreamResponse:
        """Returns the response of the other process.

        Raises:
            ApiError: 503; it does not answer, or too many requests wait for it.
        """
        if (obstacle := self._remote.obstacle_of(route)) is not None:
            raise _unavailable(obstacle)
        if self._open >= MOST_OPEN:
            message = "too many requests for pages are open"
            raise ApiError(503, message, code="pages_busy")
        self._open += 1
        try:
            return await self._forward(request)
        finally:
            self._open -= 1

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None, "the application has started"
        body = await read_body(request) if request.body_exists else None
        passed: web.StreamResponse | None = None
        try:
            async with self._session.request(
                "GET" if request.method == "HEAD" else request.method,
                request.rel_url,
                headers=_passed_on(request.headers, _OF_CONNECTION | {_OF_BODY}),
                data=body,
                allow_redirects=False,
            ) as answer:
                size = answer.content_length
                is_small = size is not None and size <= LARGEST_WHOLE
                if is_small or answer.status in _BODILESS:
                    return await _whole(answer)
                headers = _passed_on(answer.headers)
                passed = web.StreamResponse(status=answer.status, headers=headers)
                await _pass_on(request, answer, passed)
                return passed
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if passed is not None and passed.prepared:
                # Its client sees that the rest is missing.
                if request.transport is not None:
                    request.transport.abort()
                return passed
            raise _unavailable(self._remote.obstacle or _reason(error)) from error


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return "the observer process does not run"
    if isinstance(error, TimeoutError):
        return f"the observer process sent nothing for {SILENT_SECONDS:g} s"
    return "the observer process ended meanwhile"


def _unavailable(reason: str) -> ApiError:
    return ApiError(
        503, f"no pages of stat loggers: {reason}", code="observer_unavailable"
    )


def _passed_on(
    headers: Mapping[str, str], without: frozenset[str] = _OF_CONNECTION
) -> CIMultiDict[str]:
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in without
    )


async def _whole(answer: aiohttp.ClientResponse) -> Page:
    headers = _passed_on(answer.headers)
    return Page(body=await answer.read(), status=answer.status, headers=headers)


async def _pass_on(
    request: web.Request, answer: aiohttp.ClientResponse, passed: web.StreamResponse
) -> None:
    """Sends the parts of a body as they come; the first ones with the headers."""
    async for part in answer.content.iter_any():
        if not passed.prepared:
            await passed.prepare(request)
        sent_of(request).num_bytes += len(part)
        await passed.write(part)
    if not passed.prepared:
        await passed.prepare(request)
    await passed.write_eof()
