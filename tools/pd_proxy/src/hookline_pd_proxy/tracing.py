"""The proxy's spans: one of each request, parent of those of both instances."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web

from hookline.exceptions import ConfigError
from hookline.frontend.trace_context import span_ids
from hookline.frozen import EMPTY
from hookline.request import RequestFacts
from hookline_gateway.upstreams.instance import Instance
from hookline_pd_proxy.numbers import Outcome
from hookline_pd_proxy.settings import TRACES_OPTION, RouteSettings
from hookline_server.request_identity import identity_of
from hookline_server.trace_rules import trace_rules

TRACED = frozenset({Outcome.COMPLETED, Outcome.REFUSED, Outcome.CLIENT_LEFT})
"""Outcomes that are no errors of the proxy or of instances."""


@dataclass(slots=True)
class FinishedSpan:
    """A request whose response has ended.

    Attributes:
        method: Method of the request.
        route: Its path, as it is registered.
        request_id: Its id.
        context: Its W3C trace headers.
        trace_id: Id of its trace; empty if it is not traced.
        span_id: Id of the proxy's span.
        began_at: Nanoseconds since the epoch.
        ended_at: Likewise.
        phases: Name, begin and end of each phase.
        status: Status of the response; None if none was sent.
        outcome: Its outcome.
        instance: Name of the instance that answered; empty if none did.
    """

    method: str
    route: str
    request_id: str
    context: Mapping[str, str]
    trace_id: str
    span_id: str
    began_at: int
    ended_at: int = 0
    phases: list[tuple[str, int, int]] = field(default_factory=list)
    status: int | None = None
    outcome: Outcome = Outcome.FAILED
    instance: str = ""


class SpanSender(Protocol):
    """Sends spans to a collector."""

    def offer(self, span: FinishedSpan) -> None:
        """Queues a span; does not block."""

    def close(self, seconds: float) -> None:
        """Sends what is queued, for a limited time."""


class RouteSpan:
    """The span of one request; without a trace it does nothing."""

    def __init__(self, span: FinishedSpan, sender: SpanSender | None) -> None:
        self._span = span
        self._sender = sender

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that make this span the parent of an instance's, if it is one."""
        span = self._span
        if not span.trace_id:
            return EMPTY
        return trace_rules().headers(span.trace_id, span.span_id, span.context)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measures a phase."""
        began_at = time.time_ns()
        try:
            yield
        finally:
            self._span.phases.append((name, began_at, time.time_ns()))

    def end(
        self,
        outcome: Outcome,
        response: web.StreamResponse | None,
        instance: Instance | None,
    ) -> None:
        """The response has ended, or the request without one."""
        if self._sender is None or not self._span.trace_id:
            return
        span = self._span
        span.ended_at, span.outcome = time.time_ns(), outcome
        span.status = None if response is None else response.status
        span.instance = "" if instance is None else instance.name
        self._sender.offer(span)


class Tracing:
    """Begins a span for each request that is traced."""

    def __init__(self, sender: SpanSender | None = None, ratio: float = 0.0) -> None:
        """Begins spans.

        Args:
            sender: Where they go; None traces nothing, and leaves traces as they come.
            ratio: Fraction of the requests without trace context that are traced.
        """
        self._sender = sender
        self._ratio = ratio

    @classmethod
    def of(cls, settings: RouteSettings) -> "Tracing":
        """Traces as the options say.

        Raises:
            ConfigError: Spans cannot be sent there, or not without hookline-otel.
        """
        if settings.otlp_traces_endpoint is None:
            return cls()
        try:
            from hookline_pd_proxy.span_export import make_sender  # noqa: PLC0415
        except ImportError as error:
            reason = f"requires hookline-otel, which cannot be imported: {error}"
            raise ConfigError(TRACES_OPTION, reason) from error
        sender = make_sender(settings.otlp_traces_endpoint)
        asked = trace_rules().ratio
        ratio = settings.trace_ratio
        return cls(sender, ratio if asked is None else min(ratio, asked))

    def begin(self, request: web.Request) -> RouteSpan:
        """Begins the span of a request, by its client's decision if there is one."""
        trace_id, span_id = "", ""
        found = trace_rules().trace_of(request.headers)
        context = found.context
        if self._sender is not None:
            facts = RequestFacts(trace_context=context, trace_id=found.trace_id)
            trace_id, span_id = span_ids(facts, self._ratio)
        resource = request.match_info.route.resource
        span = FinishedSpan(
            method=request.method,
            route="" if resource is None else resource.canonical,
            request_id=identity_of(request).request_id,
            context=context,
            trace_id=trace_id,
            span_id=span_id,
            began_at=time.time_ns(),
        )
        return RouteSpan(span, self._sender)

    def close(self, seconds: float) -> None:
        """Sends what is queued, for a limited time; blocks."""
        if self._sender is not None:
            self._sender.close(seconds)
