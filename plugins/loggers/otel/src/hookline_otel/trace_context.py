"""Trace ids, and the client's span from W3C trace-context headers."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from hookline.frontend.trace_context import TraceParent

MAX_STATE = 512
"""Characters of `tracestate` that the standard requires to be passed on."""

_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_STATE_MEMBER = re.compile(r"[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x3c\x3e-\x7e]{1,256}")
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
    return ClientSpan(
        bytes.fromhex(parent.span_id), _state(headers.get("tracestate", ""))
    )


def _state(text: str) -> str:
    """Returns the normalised `tracestate`, empty if any member is invalid."""
    members = [member.strip(" \t") for member in text.split(",")]
    is_legal = len(text) <= MAX_STATE and all(map(_STATE_MEMBER.fullmatch, members))
    return ",".join(members) if is_legal else ""
