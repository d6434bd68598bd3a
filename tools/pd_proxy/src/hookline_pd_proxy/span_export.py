"""Sends the proxy's spans as the logger `otel` does."""

import os
from dataclasses import dataclass

from opentelemetry.trace import SpanKind

from hookline.config import EngineConfig
from hookline.payloads import LoggerContext
from hookline_otel.building import make_span_sender
from hookline_otel.ids import find_parent, span_number, trace_number
from hookline_otel.options import Options
from hookline_otel.phases import Phase
from hookline_otel.resource import make_resource
from hookline_otel.span_sender import HostSpanSender, SpanSender
from hookline_otel.tracing import Pairs, Trace
from hookline_pd_proxy.pools import Role
from hookline_pd_proxy.tracing import TRACED, FinishedSpan

SERVICE = "hookline-route"


@dataclass(frozen=True, slots=True)
class _RouteTrace:
    """A span to be sent, with a child for each phase."""

    span: FinishedSpan

    @property
    def num_parts(self) -> int:
        return 1 + len(self.span.phases)

    def described(self) -> Trace:
        span = self.span
        trace_id = trace_number(span.trace_id)
        return Trace(
            name=f"{span.method} {span.route}",
            start=span.began_at,
            end=span.ended_at,
            trace_id=trace_id,
            span_id=span_number(span.span_id),
            parent=find_parent(span.context, trace_id),
            kind=SpanKind.SERVER,
            attributes=self._attributes(),
            error=None if span.outcome in TRACED else span.outcome.value,
            phases=self._phases(),
        )

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
    """Makes spans, which the SDK's thread exports."""

    def __init__(self, sender: SpanSender | HostSpanSender) -> None:
        self._sender = sender

    def offer(self, span: FinishedSpan) -> None:
        self._sender.offer(_RouteTrace(span))

    def close(self, seconds: float) -> None:
        self._sender.close(seconds)


def make_sender(url: str) -> _Sender | None:
    """Starts to send spans, as standard environment variables say; None if not at all.

    Raises:
        ConfigError: The address or an environment variable is invalid.
    """
    given = {"traces_endpoint": url}
    context = LoggerContext(name="route", config=EngineConfig(), options=given)
    options = Options.read(context, os.environ)
    named = os.environ.get("OTEL_SERVICE_NAME")
    sender = make_span_sender(options, make_resource(None if named else SERVICE))
    if sender is None:  # OTEL_SDK_DISABLED
        return None
    sender.start()
    return _Sender(sender)
