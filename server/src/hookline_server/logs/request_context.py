"""The HTTP request that a log line belongs to."""

import logging

from aiohttp import web

from hookline.frontend.request_context import TraceParent
from hookline_server.logs.current_request import current_request, span_of
from hookline_server.request_ids import request_id


def identify(record: logging.LogRecord) -> bool:
    """Adds the request's id and trace to a record; a filter that lets all through."""
    request = current_request()
    if request is not None and not hasattr(record, "request_id"):
        for name, value in identity_of(request).items():
            setattr(record, name, value)
    return True


def identity_of(request: web.Request) -> dict[str, str]:
    """Returns the fields `request_id` and, for a traced request, those of its trace.

    These are `trace_id` and `span_id`; without a span of its own, as before it is
    submitted, only the `trace_id` that the client sent.
    """
    fields = {"request_id": request_id(request)}
    if (span := span_of(request)) is not None:
        fields["trace_id"], fields["span_id"] = span
    elif (parent := TraceParent.of(request.headers)) is not None:
        fields["trace_id"] = parent.trace_id
    return fields
