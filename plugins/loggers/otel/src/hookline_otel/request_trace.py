"""A finished request as spans: a root, and a child for each phase."""

from dataclasses import dataclass
from itertools import chain

from hookline.clock import NANOSECONDS
from hookline.stats import FinishedRequest, RequestTimes
from hookline_otel.attributes import (
    cut,
    genai_attributes,
    hookline_attributes,
    vllm_attributes,
)
from hookline_otel.options import Semconv
from hookline_otel.outcome import error_type
from hookline_otel.phases import phases_of
from hookline_otel.spans import Pairs, Root, SpanKind, encode_trace
from hookline_otel.trace_context import find_parent

LEGACY_NAME = "llm_request"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTrace:
    """A finished request that is traced.

    Attributes:
        request: The request; has a trace id.
        model: Served name of the model.
        engine_index: Index of the engine.
        semconv: Conventions that the span follows.
        observed_at: Nanoseconds since the epoch at which the logger saw the request;
            the end of a rejected request, which has no times.
    """

    request: FinishedRequest
    model: str
    engine_index: int
    semconv: Semconv
    observed_at: int

    @property
    def span_count(self) -> int:
        return 1 + len(phases_of(self._times))

    def encode(self) -> list[bytes]:
        times = self._times
        return encode_trace(self._root(times), phases_of(times))

    def _root(self, times: RequestTimes) -> Root:
        request = self.request
        facts = request.facts
        return Root(
            name=self._name,
            start=times.arrived,
            end=times.ended,
            trace_id=bytes.fromhex(facts.trace_id),
            parent=find_parent(facts.trace_context, facts.trace_id),
            kind=SpanKind.SERVER if self.semconv.has_vllm else SpanKind.INTERNAL,
            attributes=self._attributes,
            events=_events(times),
            error=cut(request.cause.label) if error_type(request) else None,
        )

    @property
    def _name(self) -> str:
        if not self.semconv.has_genai:
            return LEGACY_NAME
        return f"{self.request.facts.operation} {self.model}"

    @property
    def _attributes(self) -> Pairs:
        request, semconv = self.request, self.semconv
        if not semconv.has_genai:
            return vllm_attributes(request)
        pairs = chain(
            genai_attributes(request, self.model),
            hookline_attributes(request, self.engine_index),
        )
        if not semconv.has_vllm:
            return pairs
        # Both share some names, and a span may have each name once.
        return dict(chain(pairs, vllm_attributes(request))).items()

    @property
    def _times(self) -> RequestTimes:
        if self.request.times is not None:
            return self.request.times
        took = round(self.request.e2e_seconds * NANOSECONDS)
        return RequestTimes(arrived=self.observed_at - took, ended=self.observed_at)


def _events(times: RequestTimes) -> list[tuple[str, int]]:
    events = [("preempted", start) for start, _ in times.preempted]
    if times.first_token is not None:
        events.append(("first token", times.first_token))
    return sorted(events, key=lambda event: event[1])
