"""Which headers are forwarded, and which belong to one connection."""

from collections.abc import Mapping

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

OWN_OF_REQUESTS = frozenset({"content-length", "expect", "host", ID.lower()})
"""Set by the proxy itself, which reads the whole body before it sends anything."""

OWN_OF_ANSWERS = frozenset({"content-length", ID.lower()})


def answer_headers(headers: Mapping[str, str]) -> Headers:
    """Returns those of an instance's headers that the client gets."""
    return passed(headers, OWN_OF_ANSWERS)


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


def passed(headers: Mapping[str, str], own: frozenset[str]) -> Headers:
    """Returns the headers without those of one connection, and without `own`."""
    dropped = HOP_BY_HOP | own
    kept, named = list[tuple[str, str]](), set[str]()
    for name, value in headers.items():
        lower = name.lower()
        if lower not in dropped:
            kept.append((name, value))
        elif lower == "connection":
            named.update(word.strip().lower() for word in value.split(","))
    named -= dropped
    return [each for each in kept if each[0].lower() not in named] if named else kept
