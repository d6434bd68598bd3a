"""Completes the facts of requests with objectives, trace ids and span ids."""

import os
import random
from collections.abc import Mapping

import msgspec

from hookline.config.observers import ObserverConfig
from hookline.request import RequestFacts
from hookline.slo import over
from hookline.trace_parent import TraceParent

_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8


class RequestContext:
    """Completes facts; thread-safe."""

    def __init__(self, config: ObserverConfig) -> None:
        self._slo = config.slo
        self._trace_ratio = config.trace_ratio

    def complete(self, facts: RequestFacts) -> RequestFacts:
        """Adds the default objectives, and the ids of its span if it is traced."""
        slo = self._slo if facts.slo is None else over(facts.slo, self._slo)
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
        if (parent := TraceParent.of(headers)) is None:
            ratio = self._trace_ratio
            is_traced = ratio is not None and random.random() < ratio  # noqa: S311
            return os.urandom(_TRACE_ID_BYTES).hex() if is_traced else ""
        return parent.trace_id if parent.is_sampled else ""
