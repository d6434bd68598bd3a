"""Trace ids and span ids of requests, as in W3C's Trace Context."""

import os
from collections.abc import Mapping

from hookline.request import RequestFacts
from hookline_processes.trace_parent import TraceParent

_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8


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
