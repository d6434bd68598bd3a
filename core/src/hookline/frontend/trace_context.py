"""Trace ids and span ids of requests, as in W3C's Trace Context."""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple, Self

from hookline.request import RequestFacts

_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8
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


def span_ids(facts: RequestFacts, ratio: float | None) -> tuple[str, str]:
    """Returns the ids of a request's trace and of its span; empty if it is not traced.

    Args:
        facts: Its facts; ids that they have already stay.
        ratio: The part of the requests that is traced if the caller leaves it open.
    """
    trace_id, span_id = facts.trace_id, facts.span_id
    if not trace_id and (facts.trace_context or ratio):
        trace_id = _trace_id(facts.trace_context, ratio)
    if trace_id and not span_id:
        # Not from `random`: a program that seeds it would repeat its span ids.
        span_id = os.urandom(_SPAN_ID_BYTES).hex()
    return trace_id, span_id


def _trace_id(headers: Mapping[str, str], ratio: float | None) -> str:
    """Follows the caller's sampling decision; without one, samples by the ratio."""
    if (parent := TraceParent.of(headers)) is None:
        made = os.urandom(_TRACE_ID_BYTES)  # it decides, here as in other services
        is_traced = int.from_bytes(made[8:]) < (ratio or 0.0) * (1 << 64)
        return made.hex() if is_traced else ""
    return parent.trace_id if parent.is_sampled else ""
