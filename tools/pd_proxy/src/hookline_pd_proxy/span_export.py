"""Sends the proxy's spans by OTLP, as the logger `otel` does."""

import os
from dataclasses import dataclass

from hookline_otel.connecting import make_delivery
from hookline_otel.endpoint import Signal, find_endpoint
from hookline_otel.envelope import Envelope
from hookline_otel.options import Semconv
from hookline_otel.phases import Phase
from hookline_otel.queue_sender import SPANS, QueueSender
from hookline_otel.resource import make_resource, make_scope
from hookline_otel.spans import Pairs, Root, SpanKind, encode_trace
from hookline_otel.trace_context import find_parent
from hookline_pd_proxy.instance import Role
from hookline_pd_proxy.tracing import TRACED, FinishedSpan

SERVICE = "hookline-route"


@dataclass(frozen=True, slots=True)
class _RouteTrace:
    """A span to be sent, with a child for each phase."""

    span: FinishedSpan

    @property
    def num_parts(self) -> int:
        return 1 + len(self.span.phases)

    def encode(self) -> list[bytes]:
        span = self.span
        root = Root(
            name=f"{span.method} {span.route}",
            start=span.began_at,
            end=span.ended_at,
            trace_id=bytes.fromhex(span.trace_id),
            span_id=bytes.fromhex(span.span_id),
            parent=find_parent(span.context, span.trace_id),
            kind=SpanKind.SERVER,
            attributes=self._attributes(),
            error=None if span.outcome in TRACED else span.outcome.value,
        )
        return encode_trace(root, self._phases())

    def _phases(self) -> list[Phase]:
        """The phases; the decode continues what the prefill has computed."""
        phases = [Phase(*phase) for phase in self.span.phases]
        names = [each.name for each in phases]
        if Role.PREFILL in names and names[-1] != Role.PREFILL:
            phases[-1] = phases[-1]._replace(follows=names.index(Role.PREFILL))
        return phases

    def _attributes(self) -> Pairs:
        span = self.span
        yield "http.request.method", span.method
        yield "http.route", span.route
        yield "http.response.status_code", span.status
        yield "hookline.request_id", span.request_id
        yield "hookline.route.outcome", span.outcome.value
        yield "hookline.route.instance", span.instance or None


class _Sender:
    """Queues spans for the exporter's thread."""

    def __init__(self, sender: QueueSender[bytes]) -> None:
        self._sender = sender

    def offer(self, span: FinishedSpan) -> None:
        self._sender.offer(_RouteTrace(span))

    def close(self, seconds: float) -> None:
        self._sender.close(seconds)


def make_sender(url: str) -> _Sender:
    """Starts to send spans; standard environment variables say how.

    Raises:
        ConfigError: The address or an environment variable is invalid.
    """
    given = {"traces_endpoint": url}
    endpoint = find_endpoint(Signal.TRACES, given, os.environ, "route")
    assert endpoint is not None  # as one is given
    delivery = make_delivery(Signal.TRACES, endpoint, None)
    named = os.environ.get("OTEL_SERVICE_NAME")
    resource = make_resource(None if named else SERVICE)
    envelope = Envelope(resource, make_scope(Semconv.GENAI))
    sender = QueueSender(delivery, envelope.wrap, SPANS)
    sender.thread.start()
    return _Sender(sender)
