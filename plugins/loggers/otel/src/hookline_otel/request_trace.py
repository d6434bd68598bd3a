"""A finished request as spans: a root, and children for each completion's phases."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from opentelemetry.trace import SpanKind

from hookline.clock import NANOSECONDS
from hookline.stats.finished_request import FinishedRequest, RequestTimes
from hookline_metrics.adapter_trails import NO_TRAIL, AdapterTrail
from hookline_otel.attributes import (
    adapter_attributes,
    cut,
    genai_attributes,
    hookline_attributes,
    operation_attributes,
    vllm_attributes,
)
from hookline_otel.completions import Completions
from hookline_otel.ids import find_parent, span_number, trace_number
from hookline_otel.options import Semconv
from hookline_otel.origin import Origin
from hookline_otel.phases import Phase, adapter_waits, phases_of
from hookline_otel.tracing import Pairs, Trace

LEGACY_NAME = "llm_request"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTrace:
    """A finished request that is traced.

    Attributes:
        request: Its completions; they have a trace id.
        origin: Where it was served.
        semconv: Conventions that the span follows.
        observed_at: Nanoseconds since the epoch at which the logger saw the request;
            the end of a rejected request, which has no times.
        trails: What is known of each completion's adapter, in their order.
        clock_offset: From the engine's monotonic clock to the epoch, ns.
    """

    request: Completions
    origin: Origin
    semconv: Semconv
    observed_at: int
    trails: Sequence[AdapterTrail] = ()
    clock_offset: int = 0

    @property
    def num_parts(self) -> int:
        return 1 + len(self._phases)

    def described(self) -> Trace:
        """Describes the request's span and its phases."""
        facts, failed = self.request.first.facts, self.request.failed
        times = [self._times(each) for each in self.request.all]
        trace_id = trace_number(facts.trace_id)
        return Trace(
            name=self._name,
            start=min(each.arrived for each in times),
            end=max(each.ended for each in times),
            trace_id=trace_id,
            span_id=span_number(facts.span_id),
            parent=find_parent(facts.trace_context, trace_id),
            kind=SpanKind.SERVER,
            attributes=self._attributes,
            events=_events(times),
            error=None if failed is None else cut(failed.cause.label),
            phases=self._phases,
        )

    @property
    def _name(self) -> str:
        if not self.semconv.has_genai:
            return LEGACY_NAME
        return f"{self.request.first.facts.operation} {self.origin.model}"

    @property
    def _attributes(self) -> Pairs:
        request, origin, semconv = self.request, self.origin, self.semconv
        if request.is_rejected:
            return operation_attributes(request, origin)
        if not semconv.has_genai:
            return vllm_attributes(request)
        pairs = chain(
            operation_attributes(request, origin),
            genai_attributes(request, origin.model),
            hookline_attributes(request, origin.engine_index),
            adapter_attributes(request, self.trails),
        )
        if not semconv.has_vllm:
            return pairs
        # Both share some names, and a span may have each name once.
        return dict(chain(pairs, vllm_attributes(request))).items()

    @property
    def _phases(self) -> list[Phase]:
        request, found = self.request, list[Phase]()
        trails = self.trails or [NO_TRAIL] * len(request.all)
        for each, trail in zip(request.all, trails, strict=True):
            index = each.completion_index if request.has_several else None
            found += phases_of(self._times(each), index)
            found += adapter_waits(trail.waits, self.clock_offset, index)
        return found

    def _times(self, completion: FinishedRequest) -> RequestTimes:
        if completion.times is not None:
            return completion.times
        took = round(completion.e2e_seconds * NANOSECONDS)
        return RequestTimes(arrived=self.observed_at - took, ended=self.observed_at)


def _events(times: Sequence[RequestTimes]) -> list[tuple[str, int]]:
    """The first token of any completion, and all preemptions."""
    events = [("preempted", start) for each in times for start, _ in each.preempted]
    first_tokens = [each.first_token for each in times if each.first_token is not None]
    if first_tokens:
        events.append(("first token", min(first_tokens)))
    return sorted(events, key=lambda event: event[1])
