"""What happens while the collector is down, slow or mad."""

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)

import hookline_otel
from hookline.clock import VirtualClock
from hookline.config import EngineConfig
from hookline.payloads import EngineStopped, LoggerContext
from hookline_faults.otlp import START, TRACED, Receiver, ended
from hookline_otel import delivery
from hookline_otel.completions import Completions
from hookline_otel.delivery import Delivery
from hookline_otel.endpoint import Endpoint, OtlpProtocol, Signal
from hookline_otel.envelope import Envelope
from hookline_otel.logger import OtelLogger
from hookline_otel.options import Semconv
from hookline_otel.origin import Origin
from hookline_otel.outage_log import WARN_SECONDS, OutageLog
from hookline_otel.queue_sender import SPANS as SPAN_LOAD
from hookline_otel.queue_sender import Counts, QueueSender
from hookline_otel.request_trace import RequestTrace
from hookline_otel.resource import make_resource, make_scope
from hookline_otel.transport import Refusal, Transport
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


class HangingTransport:
    """Takes spans and does not return until it is released, or closed if polite."""

    def __init__(self, *, is_polite: bool) -> None:
        self.hangs = threading.Event()
        self.release = threading.Event()
        self._is_polite = is_polite

    def post(self, _body: bytes, _timeout_seconds: float) -> Refusal | None:
        self.hangs.set()
        self.release.wait()
        return Refusal("it hung")

    def close(self) -> None:
        if self._is_polite:
            self.release.set()


class FlakyTransport:
    """Returns the scripted answers, then accepts everything."""

    def __init__(self, *outcomes: Refusal | BaseException) -> None:
        self.batches: list[int] = []
        self.outcomes = list(outcomes)

    def post(self, body: bytes, _timeout_seconds: float) -> Refusal | None:
        (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
        (scope,) = resource.scope_spans
        self.batches.append(len(scope.spans))
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def close(self) -> None:
        """Has nothing to give up."""


class MadTrace:
    """Cannot be written."""

    num_parts = 3

    def encode(self) -> list[bytes]:
        raise ValueError("mad")


@contextmanager
def sender(
    transport: Transport, *, max_waiting: int = 2048
) -> Iterator[QueueSender[bytes]]:
    """Sends over the transport; its thread is not started."""
    endpoint = Endpoint(NOWHERE, OtlpProtocol.GRPC)
    outage = OutageLog(Signal.TRACES, endpoint, VirtualClock())
    envelope = Envelope(make_resource(None), make_scope(Semconv.GENAI))
    load = replace(SPAN_LOAD, max_waiting=max_waiting)
    yield QueueSender(Delivery(transport, outage, 5.0), envelope.wrap, load)


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
        assert logger.spans.counts.exported == 0
        assert logger.spans.counts.dropped == SPANS
        assert not receiver.inbox.gate.is_set()


@pytest.mark.parametrize("is_polite", [True, False])
def test_close_returns_from_a_transport_that_hangs(is_polite: bool) -> None:
    """A transport that ignores its time-out is abandoned."""
    transport = HangingTransport(is_polite=is_polite)
    with sender(transport) as spans:
        spans.offer(TRACE)
        spans.thread.start()
        assert transport.hangs.wait(60)
        spans.offer(TRACE)

        spans.close(0.05)

        assert spans.thread.is_running is not is_polite
        assert spans.counts == Counts(failed=SPANS * is_polite, dropped=SPANS)
        transport.release.set()
        spans.thread.wait(60)
        assert spans.counts == Counts(failed=SPANS, dropped=SPANS)


def test_buffer_drops_its_oldest() -> None:
    """What is too much goes, oldest first, and is counted."""
    transport = FlakyTransport()
    with sender(transport, max_waiting=10) as spans:
        for _ in range(25):
            spans.offer(TRACE)
        assert spans.counts == Counts(dropped=15 * SPANS)

        spans.thread.start()
        spans.close(60)

        assert spans.counts == Counts(exported=10 * SPANS, dropped=15 * SPANS)


def test_full_buffer_is_sent_in_batches() -> None:
    """No request to the collector holds many more than 512 spans."""
    transport = FlakyTransport()
    with sender(transport) as spans:
        for _ in range(200):
            spans.offer(TRACE)

        spans.thread.start()
        spans.close(60)

        assert transport.batches == [516, 516, 168]


@pytest.mark.parametrize("outcome", [Refusal("no"), RuntimeError("mad"), SystemExit()])
def test_failed_export_is_counted_and_the_next_one_tried(
    outcome: Refusal | BaseException,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An transport that fails or raises loses its batch and nothing else."""
    transport = FlakyTransport(outcome)
    with sender(transport) as spans:
        for _ in range(100):
            spans.offer(TRACE)

        spans.thread.start()
        spans.close(60)

        counts = spans.counts
        assert counts.failed == 516
        assert counts.exported + counts.dropped == 84
        assert len(warnings(caplog)) == 1


def test_passing_refusal_is_followed_by_another_try(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What a busy collector did not take is sent again, and nothing is lost."""
    monkeypatch.setattr(delivery, "FIRST_PAUSE_SECONDS", 0.001)
    busy = Refusal("busy", is_passing=True, pause_seconds=0.002)
    transport = FlakyTransport(busy, busy)
    with sender(transport) as spans:
        spans.offer(TRACE)

        spans.thread.start()
        spans.close(60)

        assert transport.batches == [SPANS] * 3
        assert spans.counts == Counts(exported=SPANS)
        assert not warnings(caplog)


def test_long_pause_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """A collector that asks for more time than an export has gets no second try."""
    transport = FlakyTransport(Refusal("later", is_passing=True, pause_seconds=3600))
    with sender(transport) as spans:
        spans.offer(TRACE)

        spans.thread.start()
        spans.close(60)

        assert transport.batches == [SPANS]
        assert spans.counts == Counts(failed=SPANS)
        (line,) = warnings(caplog)
        assert "later" in line


def test_trace_that_cannot_be_written_harms_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is counted with its reason, and its neighbours arrive."""
    transport = FlakyTransport()
    with sender(transport) as spans:
        for trace in (TRACE, MadTrace(), TRACE):
            spans.offer(trace)

        spans.thread.start()
        spans.close(60)

        assert transport.batches == [2 * SPANS]
        assert spans.counts == Counts(exported=2 * SPANS, failed=3)
        (line,) = warnings(caplog)
        assert "ValueError: mad" in line


def test_spans_after_the_end_are_dropped() -> None:
    """A closed sender takes nothing, and closing again is no harm."""
    with sender(FlakyTransport()) as spans:
        spans.thread.start()
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
