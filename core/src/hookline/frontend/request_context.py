"""Completes the facts of requests with objectives, trace ids and span ids."""

import os
import random
import re
from collections.abc import Mapping

import msgspec

from hookline.config.observers import ObserverConfig
from hookline.request import RequestFacts

# An id of zeros is invalid by the W3C's rules.
_TRACEPARENT = re.compile(
    r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})"
)
_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8
_SAMPLED = 1
"""Bit of the W3C's trace flags: the caller records the trace."""


class RequestContext:
    """Completes facts; thread-safe."""

    def __init__(self, config: ObserverConfig) -> None:
        self._slo = config.slo
        self._trace_ratio = config.trace_ratio

    def complete(self, facts: RequestFacts) -> RequestFacts:
        """Adds the default objectives, and the ids of its span if it is traced."""
        slo = self._slo if facts.slo is None else facts.slo.over(self._slo)
        trace_id = facts.trace_id or self._trace_id(facts.trace_context)
        span_id = facts.span_id
        if trace_id and not span_id:
            # Not from `random`: a program that seeds it would repeat its span ids.
            span_id = os.urandom(_SPAN_ID_BYTES).hex()
        if (slo, trace_id, span_id) == (facts.slo, facts.trace_id, facts.span_id):
            return facts
        return msgspec.structs.replace(
            facts, slo=slo, trace_id=trace_id, span_id=span_id
        )

    def _trace_id(self, headers: Mapping[str, str]) -> str:
        """Follows the caller's sampling decision; without one, samples by the ratio."""
        if (parent := _TRACEPARENT.fullmatch(headers.get("traceparent", ""))) is None:
            ratio = self._trace_ratio
            is_traced = ratio is not None and random.random() < ratio  # noqa: S311
            return os.urandom(_TRACE_ID_BYTES).hex() if is_traced else ""
        trace_id, flags = parent.groups()
        return trace_id if int(flags, 16) & _SAMPLED else ""
