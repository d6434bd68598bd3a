"""Identity of traces: what is a legal one, and the client's span in its headers."""

import re
from collections.abc import Mapping

from opentelemetry.trace import SpanContext, TraceFlags
from opentelemetry.trace.span import TraceState

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_NONE = "0" * 32


def is_trace_id(text: str) -> bool:
    """Whether it can be sent; a program may write anything into a request's facts."""
    return text != _NONE and _TRACE_ID.fullmatch(text) is not None


def find_parent(headers: Mapping[str, str], trace_id: int) -> SpanContext | None:
    """The span that asked; None where no header names one of this trace."""
    found = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
    if found is None:
        return None
    trace, span, flags = (int(group, 16) for group in found.groups())
    if trace != trace_id or not span:
        return None
    state = TraceState.from_header([headers.get("tracestate", "")])
    return SpanContext(
        trace, span, is_remote=True, trace_flags=TraceFlags(flags), trace_state=state
    )
