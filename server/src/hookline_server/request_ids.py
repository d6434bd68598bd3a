"""The id of a request, for its client and in the log."""

import re
import uuid

from aiohttp import web

from hookline_server.dialects import dialect_of

MAX_ID_LENGTH = 128

_KEY: web.RequestKey[str] = web.RequestKey("hookline_request_id", str)
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9._:\-]")


def request_id(request: web.Request) -> str:
    """Returns the client's id if it sent a valid one, otherwise a new one."""
    if _KEY not in request:
        sent = _NOT_IN_ID.sub("", request.headers.get("X-Request-Id", ""))
        request[_KEY] = sent[:MAX_ID_LENGTH] or uuid.uuid4().hex
    return request[_KEY]


async def echo_request_id(request: web.Request, response: web.StreamResponse) -> None:
    """Adds the id to the response's headers."""
    response.headers["X-Request-Id"] = request_id(request)
    if name := dialect_of(request).id_header:
        response.headers[name] = request_id(request)
