"""Sends spans: by a tracer of the host program's provider, or of one made here."""

from collections.abc import Callable
from typing import Protocol

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Tracer as SdkTracer
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Tracer

from hookline_otel.batching import Batching
from hookline_otel.endpoint import Signal
from hookline_otel.ids import ChosenIds
from hookline_otel.sender import Sender
from hookline_otel.tally import Counts
from hookline_otel.tracing import Trace, make_spans
from hookline_otel.watch import Watch, WatchedSpans
from hookline_registry import Failure, isolate


class SpanItem(Protocol):
    """Something to be told in spans."""

    @property
    def num_parts(self) -> int:
        """Number of its spans."""
        ...

    def described(self) -> Trace:
        """Describes the spans."""
        ...


class SpanSender(Sender):
    """Makes spans by a tracer of a provider, and exports them in batches.

    What is sampled was decided as requests arrived, so this provider takes everything.
    """

    def __init__(
        self,
        exporters: list[SpanExporter],
        watch: Watch,
        batching: Batching,
        resource: Resource,
        scope: InstrumentationScope,
    ) -> None:
        """Creates the sender without starting it.

        Args:
            exporters: Where spans go; the first one's success counts.
            watch: Watches the first exporter.
            batching: How many spans wait, and for how long.
            resource: Describes the server.
            scope: The plugin's.
        """
        super().__init__(Signal.TRACES)
        first, *others = exporters
        self._exporters = [WatchedSpans(first, watch), *others]
        self._watch = watch
        self._batching = batching
        self._resource = resource
        self._scope = scope
        self._ids = ChosenIds()
        self._tracer: Tracer | None = None

    @property
    def counts(self) -> Counts:
        return self._watch.tally.counts

    def offer(self, item: SpanItem) -> None:
        """Makes the spans of something, unless too many wait already."""
        parts = item.num_parts
        if not self._watch.tally.admit(parts):
            return
        self.start()
        made = isolate(self._make, item)
        if isinstance(made, Failure):
            self._watch.failed(parts, made.summary)

    def _make(self, item: SpanItem) -> None:
        assert self._tracer is not None
        make_spans(self._tracer, self._ids, item.described())

    def _open(self) -> Callable[[], object]:
        provider = TracerProvider(
            ALWAYS_ON, self._resource, shutdown_on_exit=False, id_generator=self._ids
        )
        for exporter in self._exporters:
            provider.add_span_processor(
                BatchSpanProcessor(
                    exporter,
                    max_queue_size=self._batching.max_waiting,
                    schedule_delay_millis=self._batching.delay_ms,
                    max_export_batch_size=self._batching.max_batch,
                )
            )
        scope = self._scope
        self._tracer = provider.get_tracer(scope.name, scope.version, scope.schema_url)
        return provider.shutdown

    def _drop(self) -> None:
        self._watch.close()

    def _interrupt(self) -> None:
        for exporter in self._exporters:
            exporter.shutdown()


class HostSpanSender(Sender):
    """Makes spans by the provider that the host program has set."""

    def __init__(self, scope: InstrumentationScope) -> None:
        super().__init__(Signal.TRACES)
        self._provider = trace.get_tracer_provider()
        self._tracer = self._provider.get_tracer(
            scope.name, scope.version, scope.schema_url
        )
        self._ids = ChosenIds()
        if isinstance(self._tracer, SdkTracer):  # this tracer is only ours
            self._tracer.id_generator = self._ids

    @property
    def counts(self) -> Counts:
        """Nothing is counted here: the host program's provider exports."""
        return Counts()

    def offer(self, item: SpanItem) -> None:
        """Makes the spans of something, which the host's processors then get."""
        isolate(lambda: make_spans(self._tracer, self._ids, item.described()))

    def _open(self) -> Callable[[], object]:
        flush: Callable[[], object] = getattr(self._provider, "force_flush", bool)
        return flush

    def _drop(self) -> None:
        """What waits is in the hands of the host program."""

    def _interrupt(self) -> None:
        """Likewise."""
