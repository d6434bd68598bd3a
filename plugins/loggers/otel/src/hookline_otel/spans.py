"""Makes spans of what is over: with explicit times, and without a tracer."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.span import TraceState
from opentelemetry.trace.status import Status, StatusCode

AttributeValue = str | bool | int | float | tuple[str, ...]
Attributes = Mapping[str, AttributeValue]

_UNSET = Status(StatusCode.UNSET)


class Trace(Protocol):
    """Something that is over and can be told as spans.

    Spans are made only when they are sent: those that are dropped cost nothing.
    """

    @property
    def span_count(self) -> int:
        """How many spans it will be."""
        ...

    def spans(self, factory: "SpanFactory") -> list[ReadableSpan]:
        """Makes them, parents first; called in the export thread."""
        ...


@dataclass(frozen=True, slots=True)
class SpanFactory:
    """Makes spans of one resource and scope."""

    resource: Resource
    scope: InstrumentationScope

    def root(
        self,
        name: str,
        start: int,
        end: int,
        *,
        trace_id: int,
        parent: SpanContext | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
        events: Sequence[tuple[str, int]] = (),
        status: Status = _UNSET,
    ) -> ReadableSpan:
        """A span without a parent in this process.

        Args:
            name: Of the span.
            start: Nanoseconds since the epoch.
            end: Likewise; a clock that was set back ends the span where it starts.
            trace_id: The trace it belongs to.
            parent: The client's span.
            kind: Its role.
            attributes: Its own.
            events: Names and times; times outside the span move to its edges.
            status: Whether it failed.
        """
        end = max(start, end)
        return ReadableSpan(
            name=name,
            context=_new_context(trace_id, parent.trace_state if parent else None),
            parent=parent,
            resource=self.resource,
            attributes=attributes or {},
            events=[
                Event(label, timestamp=_clamp(at, start, end)) for label, at in events
            ],
            kind=kind,
            instrumentation_scope=self.scope,
            status=status,
            start_time=start,
            end_time=end,
        )

    def child(
        self, parent: ReadableSpan, name: str, start: int, end: int
    ) -> ReadableSpan:
        """A part of `parent`; what sticks out of it is cut off."""
        context = parent.get_span_context()
        low, high = parent.start_time, parent.end_time
        assert context is not None
        assert low is not None
        assert high is not None
        start = _clamp(start, low, high)
        return ReadableSpan(
            name=name,
            context=_new_context(context.trace_id, context.trace_state),
            parent=context,
            resource=self.resource,
            attributes={},
            instrumentation_scope=self.scope,
            start_time=start,
            end_time=_clamp(end, start, high),
        )


def _clamp(moment: int, low: int, high: int) -> int:
    return min(max(moment, low), high)


def _new_context(trace_id: int, state: TraceState | None) -> SpanContext:
    # Not from `random`: a program that seeds it would repeat its span ids.
    return SpanContext(
        trace_id,
        secrets.randbits(64) or 1,
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
        trace_state=state,
    )
