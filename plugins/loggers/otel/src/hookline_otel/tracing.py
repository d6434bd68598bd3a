"""Makes spans by a tracer: of a trace's root, and of a child for each of its phases."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
)

from hookline_otel.ids import ChosenIds
from hookline_otel.phases import Phase

AttributeValue = str | bool | int | float | tuple[str, ...]

Pairs = Iterable[tuple[str, AttributeValue | None]]
"""Attribute names and values; None values are omitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A span without a parent in this process, and its phases.

    Attributes:
        name: Name of the span.
        start: Nanoseconds since the epoch.
        end: Nanoseconds since the epoch; raised to `start` if the clock was set back.
        trace_id: Id of the trace; 0 takes a new one.
        span_id: Id of the span; 0 takes a new one.
        parent: The client's span, if any.
        kind: Kind of the span.
        attributes: Attributes of the span.
        events: Names and times; times are clamped to the span.
        error: Error message; None on success.
        phases: Children, clamped to the span's time.
    """

    name: str
    start: int
    end: int
    trace_id: int = 0
    span_id: int = 0
    parent: SpanContext | None = None
    kind: SpanKind = SpanKind.INTERNAL
    attributes: Pairs = ()
    events: Sequence[tuple[str, int]] = ()
    error: str | None = None
    phases: Sequence[Phase] = ()


def make_spans(tracer: Tracer, ids: ChosenIds, made: Trace) -> None:
    """Makes and ends the spans of a trace.

    The ids are those of the trace if the tracer takes them from `ids`.
    """
    start, end = made.start, max(made.start, made.end)
    context = Context()
    if made.parent is not None:
        context = trace.set_span_in_context(NonRecordingSpan(made.parent), context)
    attributes = {name: each for name, each in made.attributes if each is not None}
    with ids.chosen(made.trace_id, made.span_id):
        root = tracer.start_span(
            made.name,
            context,
            made.kind,
            attributes,
            start_time=start,
            record_exception=False,
        )
    if not root.is_recording():  # a sampler of the host program decided so
        return
    for name, at in made.events:
        root.add_event(name, timestamp=_clamp(at, start, end))
    if made.error is not None:
        root.set_status(Status(StatusCode.ERROR, made.error))
    root.end(end)
    inside = trace.set_span_in_context(root, Context())
    contexts: list[SpanContext] = []
    for phase in made.phases:
        low = _clamp(phase.start, start, end)
        child = tracer.start_span(
            phase.name,
            inside,
            attributes=_completion(phase.completion_index),
            links=None if phase.follows is None else [Link(contexts[phase.follows])],
            start_time=low,
            record_exception=False,
        )
        contexts.append(child.get_span_context())
        child.end(_clamp(phase.end, low, end))


def _completion(index: int | None) -> dict[str, int] | None:
    return None if index is None else {"hookline.completion_index": index}


def _clamp(moment: int, low: int, high: int) -> int:
    return low if moment < low else min(moment, high)
