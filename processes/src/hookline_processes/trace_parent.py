"""The header `traceparent` of W3C's Trace Context, by which processes share a trace."""

import re
from collections.abc import Mapping
from typing import NamedTuple, Self

_FORM = re.compile(
    # Later versions than 00 may add parts; ff is none.
    r"(?!ff)(?!00.{53}-)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
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
        """Parses the trace headers; returns None without a valid `traceparent`.

        Of a later version than 00 it takes the parts that this version knows.
        """
        found = _FORM.fullmatch(headers.get("traceparent", "").strip())
        if found is None:
            return None
        trace_id, span_id, flags, _ = found.groups()
        if not (trace_id.strip("0") and span_id.strip("0")):
            return None
        return cls(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))
