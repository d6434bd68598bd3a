"""What happens while the collector is down, slow or mad."""

import logging
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

import hookline_otel
from hookline.clock import VirtualClock
from hookline.config import EngineConfig
from hookline.payloads import EngineStopped, LoggerContext
from hookline_faults.otlp import START, TRACED, Receiver, ended
from hookline_otel.batching import Batching
from hookline_otel.completions import Completions
from hookline_otel.endpoint import Endpoint, OtlpProtocol, Signal
from hookline_otel.logger import OtelLogger
from hookline_otel.options import Semconv
from hookline_otel.origin import Origin
from hookline_otel.outage_log import WARN_SECONDS, OutageLog
from hookline_otel.request_trace import RequestTrace
from hookline_otel.resource import make_resource, make_scope
from hookline_otel.span_sender import SpanSender
from hookline_otel.tally import Counts, Tally
from hookline_otel.tracing import Trace
from hookline_otel.watch import Watch
from hookline_testing.essential import essential
from hookline_testing.payloads import make_started, make_step

STOPPED = EngineStopped(engine_index=0, reason="closed")
SPANS = 6
"""Of the request that is used here."""

NOWHERE = "http://127.0.0.1:9"
"""The port `discard`, where nothing listens."""

TRACE = RequestTrace(
    request=Completions((TRACED,)),
    origin=Origin("tiny", 0),
    semconv=Semconv.GENAI,
    observed_at=START,
)


class HangingExporter(SpanExporter):
    """Takes spans and does not return until it is released, or ended if polite."""

    def __init__(self, *, is_polite: bool = False) -> None:
        self.hangs = threading.Event()
        self.release = threading.Event()
        self._is_polite = is_polite
        self._result = SpanExportResult.SUCCESS

    def export(self, _spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.hangs.set()
        self.release.wait()
        return self._result

    def shutdown(self) -> None:
        if self._is_polite:
            self._result = SpanExportResult.FAILURE
            self.release.set()


class FlakyExporter(SpanExporter):
    """Returns the scripted answers, then accepts everything."""

    def __init__(self, *outcomes: SpanExportResult | BaseException) -> None:
        self.batches: list[int] = []
        self.outcomes = list(outcomes)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.batches.append(len(spans))
        outcome = self.outcomes.pop(0) if self.outcomes else SpanExportResult.SUCCESS
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


class MadTrace:
    """Cannot be told."""

    num_parts = 3

    def described(self) -> Trace:
        raise ValueError("mad")


def sender(exporter: SpanExporter, *, max_waiting: int = 8192) -> SpanSender:
    """Sends by the exporter; its threads start with its first trace."""
    outage = OutageLog(
        Signal.TRACES, Endpoint(NOWHERE, OtlpProtocol.GRPC), VirtualClock()
    )
    return SpanSender(
        [exporter],
        Watch("spans", Tally(max_waiting), outage),
        Batching(max_waiting=max_waiting, max_batch=min(512, max_waiting), delay_ms=5),
        make_resource(None),
        make_scope(Semconv.GENAI),
    )


def create(**options: str) -> OtelLogger:
    """The logger as its hook makes it."""
    logger = hookline_otel.create_stat_logger(
        LoggerContext(name="otel", config=EngineConfig(), options=options)
    )
    assert isinstance(logger, OtelLogger)
    return logger


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Lines of the log that someone would see."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING
    ]


@pytest.mark.parametrize("protocol", list(OtlpProtocol))
def test_collector_that_is_down_costs_a_count_and_a_warning(
    protocol: OtlpProtocol, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is raised; all that was lost is counted, and each signal warns once."""
    logger = create(
        traces_endpoint=NOWHERE,
        metrics_endpoint=NOWHERE,
        protocol=protocol,
        flush_seconds="0.5",
        metrics_interval="0.05",
    )
    logger.engine_started(make_started())
    for _ in range(100):
        logger.step_finished(make_step(ended(TRACED)))

    logger.engine_stopped(STOPPED)

    assert logger.spans is not None
    assert logger.metrics is not None
    counts = logger.spans.counts
    assert counts.exported == 0
    assert counts.failed + counts.dropped == 100 * SPANS
    assert logger.metrics.sender.failed > 0
    traces, metrics = sorted(warnings(caplog), key=lambda line: "metrics" in line)
    assert traces.startswith(f"cannot send traces to 127.0.0.1:9 ({protocol}): ")
    assert metrics.startswith(f"cannot send metrics to 127.0.0.1:9 ({protocol}): ")
    assert "refused" in traces
    assert "refused" in metrics


def test_collector_that_refuses_is_quoted(caplog: pytest.LogCaptureFixture) -> None:
    """What the collector answers instead of taking spans is in the warning."""
    with Receiver(OtlpProtocol.HTTP) as receiver:
        logger = create(
            traces_endpoint=f"{receiver.url}/nowhere", protocol=OtlpProtocol.HTTP
        )
        logger.step_finished(make_step(ended(TRACED)))

        logger.engine_started(make_started())
        logger.engine_stopped(STOPPED)

        assert logger.spans is not None
        assert logger.spans.counts == Counts(failed=SPANS)
        (line,) = warnings(caplog)
        assert "404" in line


END_WITHOUT_STOPPING = """
import sys
import hookline_otel
from hookline.config import EngineConfig
from hookline_testing.payloads import make_started, make_step
from hookline.payloads import LoggerContext
from hookline_faults.otlp import TRACED, ended

options = {"traces_endpoint": sys.argv[1]}
context = LoggerContext(name="otel", config=EngineConfig(), options=options)
logger = hookline_otel.create_stat_logger(context)
logger.engine_started(make_started())
logger.step_finished(make_step(ended(TRACED)))
"""


@pytest.mark.parametrize("is_hanging", essential([False, True], False))
def test_exiting_program_sends_its_spans(is_hanging: bool) -> None:
    """Spans of an engine that was not stopped are sent without delaying the exit."""
    with Receiver(OtlpProtocol.GRPC) as receiver:
        if is_hanging:
            receiver.inbox.gate.clear()

        subprocess.run(
            [sys.executable, "-c", END_WITHOUT_STOPPING, receiver.url], check=True
        )

        assert len(receiver.inbox.spans) == SPANS
        assert receiver.inbox.gate.is_set() is not is_hanging


@pytest.mark.parametrize("protocol", list(OtlpProtocol))
def test_hanging_collector_delays_no_exit(protocol: OtlpProtocol) -> None:
    """A collector that takes requests but never answers holds up no end."""
    with Receiver(protocol) as receiver:
        receiver.inbox.gate.clear()
        logger = create(
            traces_endpoint=receiver.url,
            metrics_endpoint=receiver.url,
            protocol=protocol,
            flush_seconds="0.2",
        )
        logger.engine_started(make_started())
        logger.step_finished(make_step(ended(TRACED)))
        receiver.inbox.wait_for(lambda inbox: bool(inbox.traces and inbox.metrics))
        logger.step_finished(make_step(ended(TRACED)))

        logger.engine_stopped(STOPPED)

        assert logger.spans is not None
        counts = logger.spans.counts
        assert (counts.exported, counts.failed + counts.dropped) == (0, 2 * SPANS)
        assert not receiver.inbox.gate.is_set()


@pytest.mark.parametrize("is_polite", [True, False])
def test_close_returns_from_an_exporter_that_hangs(is_polite: bool) -> None:
    """One that ignores its end is abandoned, and what it had is lost."""
    exporter = HangingExporter(is_polite=is_polite)
    spans = sender(exporter)
    spans.offer(TRACE)
    assert exporter.hangs.wait(60)
    spans.offer(TRACE)

    spans.close(0.05)

    assert exporter.release.is_set() is is_polite
    assert (spans.counts.exported, spans.counts.lost) == (0, 2 * SPANS)
    exporter.release.set()
    spans.close(60)
    assert not spans.is_running
    assert (spans.counts.exported, spans.counts.lost) == (0, 2 * SPANS)


def test_full_buffer_drops_whole_traces() -> None:
    """What is too much goes, and is counted; no trace is cut in two."""
    exporter = HangingExporter()
    spans = sender(exporter, max_waiting=10 * SPANS + 1)

    for _ in range(25):
        spans.offer(TRACE)

    assert spans.counts == Counts(dropped=15 * SPANS)
    exporter.release.set()
    spans.close(60)
    assert spans.counts == Counts(exported=10 * SPANS, dropped=15 * SPANS)


def test_full_buffer_is_sent_in_batches() -> None:
    """No request to the collector holds more than 512 spans."""
    exporter = FlakyExporter()
    spans = sender(exporter)
    for _ in range(200):
        spans.offer(TRACE)

    spans.close(60)

    assert sum(exporter.batches) == 200 * SPANS
    assert max(exporter.batches) <= 512


@pytest.mark.parametrize(
    "outcome", [SpanExportResult.FAILURE, RuntimeError("mad"), SystemExit()]
)
def test_failed_export_is_counted_and_the_next_one_tried(
    outcome: SpanExportResult | BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """An exporter that fails or raises loses its batch and nothing else."""
    exporter = FlakyExporter(outcome)
    spans = sender(exporter)
    for _ in range(200):
        spans.offer(TRACE)

    spans.close(60)

    failed, *others = exporter.batches
    assert spans.counts == Counts(exported=sum(others), failed=failed)
    assert failed + sum(others) == 200 * SPANS
    assert len(warnings(caplog)) == 1


def test_trace_that_cannot_be_told_harms_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is counted with its reason, and its neighbours arrive."""
    spans = sender(FlakyExporter())
    for trace in (TRACE, MadTrace(), TRACE):
        spans.offer(trace)

    spans.close(60)

    assert spans.counts == Counts(exported=2 * SPANS, failed=3)
    (line,) = warnings(caplog)
    assert "ValueError: mad" in line


def test_spans_after_the_end_are_dropped() -> None:
    """A closed sender takes nothing, and closing again is no harm."""
    spans = sender(FlakyExporter())
    spans.start()
    spans.close(60)

    spans.offer(TRACE)
    spans.close(60)

    assert spans.counts == Counts(dropped=SPANS)


def test_warnings_are_rare(caplog: pytest.LogCaptureFixture) -> None:
    """During an outage there is one line per minute; its end has a lower level."""
    caplog.set_level(logging.INFO)
    clock = VirtualClock()
    endpoint = Endpoint("https://me:secret@collector/v1/traces", OtlpProtocol.HTTP)
    log = OutageLog(Signal.TRACES, endpoint, clock)

    for _ in range(WARN_SECONDS * 2):
        log.failed("refused", "6 spans")
        clock.sleep(1)
    log.arrived()
    log.arrived()

    line = "cannot send traces to collector (http/protobuf): refused; lost so far: "
    assert caplog.messages == [
        f"{line}6 spans",
        f"{line}6 spans",
        "traces arrive at collector again",
    ]
