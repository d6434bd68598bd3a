"""The `traceparent` header of W3C trace context."""

import re
from collections.abc import Mapping
from typing import NamedTuple, Self

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_INVALID_VERSION = "ff"
_SAMPLED = 1


class TraceParent(NamedTuple):
    """The span in another process that a request belongs to.

    Attributes:
        trace_id: Id of its trace: 32 hexadecimal digits, not all 0.
        span_id: Id of the span: 16 hexadecimal digits, not all 0.
        is_sampled: Whether that process records the trace.
    """

    trace_id: str
    span_id: str
    is_sampled: bool

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Self | None:
        """Returns what the headers say; None without a valid `traceparent`."""
        found = _FORM.fullmatch(headers.get("traceparent", "").strip())
        if found is None:
            return None
        version, trace_id, span_id, flags = found.groups()
        is_valid = trace_id.strip("0") and span_id.strip("0")
        if version == _INVALID_VERSION or not is_valid:
            return None
        return cls(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))
