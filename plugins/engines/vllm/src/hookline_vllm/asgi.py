"""The types of an ASGI application, and what both ways to serve pages do with it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

MAX_BODY = 1 << 20


async def left(receive: Receive) -> None:
    """Waits until the client leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def body_of(receive: Receive) -> bytes | None:
    """Returns the body; None if it is too large."""
    body, is_more = b"", True
    while is_more:
        message = await receive()
        body += message.get("body", b"")
        is_more = message.get("more_body", False)
        if len(body) > MAX_BODY:
            return None
    return body
