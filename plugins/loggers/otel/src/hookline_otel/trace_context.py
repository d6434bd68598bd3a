"""Trace ids, and the client's span from W3C trace-context headers."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from hookline.frontend.trace_context import TraceParent

_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_SPAN_ID = re.compile(r"[0-9a-f]{16}")
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16


class ClientSpan(NamedTuple):
    """The client's span, in another process.

    Attributes:
        span_id: Id of the span, 8 bytes.
        state: The `tracestate` to pass on; may be empty.
    """

    span_id: bytes
    state: str


def is_trace_id(text: str) -> bool:
    """Whether the text is a valid trace id; request facts may hold any text."""
    return text != _NO_TRACE and _TRACE_ID.fullmatch(text) is not None


def is_span_id(text: str) -> bool:
    """Whether the text is a valid span id; request facts may hold any text."""
    return text != _NO_SPAN and _SPAN_ID.fullmatch(text) is not None


def find_parent(headers: Mapping[str, str], trace_id: str) -> ClientSpan | None:
    """Returns the client's span, or None if no header names one of this trace."""
    parent = TraceParent.of(headers)
    if parent is None or parent.trace_id != trace_id:
        return None
    state = headers.get("tracestate", "")  # the server has checked it, a program not
    is_legal = state.isascii() and state.isprintable()
    return ClientSpan(bytes.fromhex(parent.span_id), state if is_legal else "")
