"""The HTTP request of the current task, and its span."""

from contextvars import ContextVar

from aiohttp import web

from hookline.request import RequestFacts

_CURRENT: ContextVar[web.Request | None] = ContextVar("request", default=None)
_SPAN: web.RequestKey[tuple[str, str]] = web.RequestKey("hookline_span", tuple)


def enter_request(request: web.Request) -> None:
    """Makes the request that of all log lines of the current task."""
    _CURRENT.set(request)


def enter_span(facts: RequestFacts) -> None:
    """Makes the span of these facts that of the current request's later log lines.

    Of a request with several prompts it is the first one's; untraced facts have none.
    """
    request = _CURRENT.get()
    if request is not None and facts.trace_id and _SPAN not in request:
        request[_SPAN] = (facts.trace_id, facts.span_id)


def current_request() -> web.Request | None:
    """Returns the request of the current task, or None outside of requests."""
    return _CURRENT.get()


def span_of(request: web.Request) -> tuple[str, str] | None:
    """Returns the ids of a request's trace and span, or None without a span so far."""
    return request.get(_SPAN)
