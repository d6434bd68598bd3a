"""A finished request as spans: itself, and a child for each phase."""

from dataclasses import dataclass
from itertools import chain

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind
from opentelemetry.trace.status import Status, StatusCode

from hookline.clock import NANOSECONDS
from hookline.stats import FinishedRequest, RequestTimes
from hookline_otel.attributes import (
    Pairs,
    cut,
    genai_attributes,
    hookline_attributes,
    vllm_attributes,
)
from hookline_otel.options import Semconv
from hookline_otel.outcome import error_type
from hookline_otel.phases import phases_of
from hookline_otel.spans import SpanFactory
from hookline_otel.trace_context import find_parent

LEGACY_NAME = "llm_request"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTrace:
    """A request that is traced.

    Attributes:
        request: With a trace id.
        model: What clients call the model.
        engine_index: Which of several engines.
        semconv: Which names the span follows.
        told_at: When it was told, nanoseconds since the epoch: places a request that
            brings no times, because it was rejected.
    """

    request: FinishedRequest
    model: str
    engine_index: int
    semconv: Semconv
    told_at: int

    @property
    def span_count(self) -> int:
        return 1 + len(phases_of(self._times))

    def spans(self, factory: SpanFactory) -> list[ReadableSpan]:
        times = self._times
        root = self._root(factory, times)
        return [
            root,
            *(
                factory.child(root, phase.name, phase.start, phase.end)
                for phase in phases_of(times)
            ),
        ]

    def _root(self, factory: SpanFactory, times: RequestTimes) -> ReadableSpan:
        request = self.request
        trace_id = int(request.facts.trace_id, 16)
        is_error = error_type(request) != ""
        return factory.root(
            self._name,
            times.arrived,
            times.ended,
            trace_id=trace_id,
            parent=find_parent(request.facts.trace_context, trace_id),
            kind=SpanKind.SERVER if self.semconv.has_vllm else SpanKind.INTERNAL,
            attributes={
                name: value for name, value in self._attributes if value is not None
            },
            events=_events(times),
            status=Status(StatusCode.ERROR, cut(request.cause) or None)
            if is_error
            else Status(StatusCode.UNSET),
        )

    @property
    def _name(self) -> str:
        if not self.semconv.has_genai:
            return LEGACY_NAME
        return f"{self.request.facts.operation} {self.model}"

    @property
    def _attributes(self) -> Pairs:
        request, semconv = self.request, self.semconv
        return chain(
            vllm_attributes(request) if semconv.has_vllm else (),
            genai_attributes(request, self.model) if semconv.has_genai else (),
            hookline_attributes(request, self.engine_index)
            if semconv.has_genai
            else (),
        )

    @property
    def _times(self) -> RequestTimes:
        if self.request.times is not None:
            return self.request.times
        took = round(self.request.e2e_seconds * NANOSECONDS)
        return RequestTimes(arrived=self.told_at - took, ended=self.told_at)


def _events(times: RequestTimes) -> list[tuple[str, int]]:
    events = [("preempted", start) for start, _ in times.preempted]
    if times.first_token is not None:
        events.append(("first token", times.first_token))
    return sorted(events, key=lambda event: event[1])
