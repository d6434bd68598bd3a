"""The HTTP request that a log line belongs to."""

import logging
from contextvars import ContextVar

from aiohttp import web

from hookline_server.request_identity import request_id, trace_context

_CURRENT: ContextVar[web.Request | None] = ContextVar("request", default=None)


def enter_request(request: web.Request) -> None:
    """Makes the request that of all log lines of the current task."""
    _CURRENT.set(request)


def identify(record: logging.LogRecord) -> bool:
    """Adds the request's id and trace to a record; a filter that lets all through."""
    request = _CURRENT.get()
    if request is not None and not hasattr(record, "request_id"):
        for name, value in identity_of(request).items():
            setattr(record, name, value)
    return True


def identity_of(request: web.Request) -> dict[str, str]:
    """Returns the fields `request_id` and, for a traced request, `trace_id`."""
    fields = {"request_id": request_id(request)}
    if (parent := trace_context(request.headers).get("traceparent")) is not None:
        fields["trace_id"] = parent.split("-")[1]
    return fields
