"""Passes requests for pages on to the process that has the loggers."""

import asyncio

import aiohttp

from hookline.frontend.observing import RemotePages
from hookline_vllm.asgi import Receive, Scope, Send, body_of, left

CONNECT_SECONDS = 2.0
SILENT_SECONDS = 15.0
_OF_CONNECTION = frozenset(
    {b"connection", b"content-length", b"host", b"keep-alive", b"te"}
    | {b"trailer", b"transfer-encoding", b"upgrade", b"expect"}
)


class Forwarding:
    """Forwards over that process's UNIX socket, part by part."""

    def __init__(self, remote: RemotePages) -> None:
        self._remote = remote

    async def serve(
        self, scope: Scope, path: str, receive: Receive, send: Send
    ) -> str | None:
        """Answers a request; returns why it could not, if nothing was sent yet."""
        if (obstacle := self._remote.obstacle) is not None:
            return obstacle
        body = await body_of(receive)
        query = scope.get("query_string", b"").decode("latin-1")
        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in scope["headers"]
            if name.lower() not in _OF_CONNECTION
        ]
        timeout = aiohttp.ClientTimeout(
            total=None, connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS
        )
        has_begun = False
        try:
            async with (
                aiohttp.ClientSession(
                    connector=aiohttp.UnixConnector(self._remote.socket),
                    timeout=timeout,
                    auto_decompress=False,
                    skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
                ) as session,
                session.request(
                    scope["method"],
                    f"http://observer{path}{'?' if query else ''}{query}",
                    headers=headers,
                    data=body or None,
                    allow_redirects=False,
                ) as answer,
            ):
                has_begun = True
                await _pass_on(answer, receive, send)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if has_begun:
                raise
            return f"the observer process does not answer: {error}"
        return None


async def _pass_on(
    answer: aiohttp.ClientResponse, receive: Receive, send: Send
) -> None:
    raw = [
        (name.lower(), value)
        for name, value in answer.raw_headers
        if name.lower() not in _OF_CONNECTION
    ]
    start = {"type": "http.response.start", "status": answer.status, "headers": raw}
    leaving = asyncio.ensure_future(left(receive))
    try:
        await send(start)
        async for part in answer.content.iter_any():
            if leaving.done():
                return
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        leaving.cancel()
