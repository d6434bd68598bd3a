"""Which headers are forwarded, and which belong to one connection."""

from collections.abc import Mapping

from aiohttp import web

from hookline_server.auth.permissions import ROUTER_KEY
from hookline_server.request_identity import identity_of

Headers = list[tuple[str, str]]
"""Names and values in order; a name can occur several times."""

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
"""RFC 9110, 7.6.1, and the rest of RFC 2616, 13.5.1."""

ID = "X-Request-Id"
CONTEXT = ("traceparent", "tracestate")

OWN_OF_REQUESTS = frozenset(
    {"content-length", "expect", "host", ID.lower(), ROUTER_KEY.lower()}
)
"""Set by the proxy itself, which reads the whole body before it sends anything."""

OWN_OF_ANSWERS = frozenset({"content-length", ID.lower()})


def request_headers(request: web.Request, instance_key: str | None) -> Headers:
    """Returns the headers for an instance: the client's, and the request's id.

    Authorization and trace headers are among them. The proxy's own key
    stands beside the client's, whose tenant and limits count.
    """
    headers = _passed(request.headers, OWN_OF_REQUESTS)
    headers.append((ID, identity_of(request).request_id))
    if instance_key is not None:
        headers.append((ROUTER_KEY, instance_key))
    return headers


def answer_headers(headers: Mapping[str, str]) -> Headers:
    """Returns those of an instance's headers that the client gets."""
    return _passed(headers, OWN_OF_ANSWERS)


def traced(headers: Headers, parent: Mapping[str, str]) -> Headers:
    """Returns the headers with another parent of the instance's span, if there is one.

    Its trace context stands in place of the client's, whose `tracestate` is in it.
    """
    if not parent:
        return headers
    kept = [each for each in headers if each[0].lower() not in {*parent, *CONTEXT}]
    return [*kept, *parent.items()]


def without(headers: Headers, name: str) -> Headers:
    """Returns the headers without those of one name."""
    return [each for each in headers if each[0].lower() != name.lower()]


def _passed(headers: Mapping[str, str], own: frozenset[str]) -> Headers:
    named = {
        word.strip().lower()
        for name, value in headers.items()
        if name.lower() == "connection"
        for word in value.split(",")
    }
    dropped = HOP_BY_HOP | own | named
    return [each for each in headers.items() if each[0].lower() not in dropped]
