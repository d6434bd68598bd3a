"""Which headers go through the route, and which belong to one connection."""

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from hookline_server.request_identity import request_id

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""RFC 9110, 7.6.1, and what is still met of RFC 2616, 13.5.1."""

OWN_OF_REQUESTS = frozenset({"content-length", "expect", "host", "x-request-id"})
"""The route says these itself; it has the whole body before it sends anything."""

OWN_OF_ANSWERS = frozenset({"content-length", "x-request-id"})


def request_headers(request: web.Request) -> CIMultiDict[str]:
    """What an instance is sent: the client's headers, and the id of its request.

    Authorization, `traceparent` and `tracestate` are among them.
    """
    headers = _passed(request.headers, OWN_OF_REQUESTS)
    headers["X-Request-Id"] = request_id(request)
    return headers


def answer_headers(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """What the client is sent of an instance's headers."""
    return _passed(headers, OWN_OF_ANSWERS)


def _passed(headers: CIMultiDictProxy[str], own: frozenset[str]) -> CIMultiDict[str]:
    named = {
        name.strip().lower()
        for value in headers.getall("Connection", ())
        for name in value.split(",")
    }
    dropped = HOP_BY_HOP | own | named
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in dropped
    )
