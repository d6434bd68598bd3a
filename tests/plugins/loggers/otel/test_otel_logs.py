"""The server's log as a collector receives it."""

import logging
from collections.abc import Iterator, Sequence

import pluggy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ScopeLogs
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

import hookline_otel
from hookline import hookspecs
from hookline.config import EngineConfig
from hookline.payloads import EngineStopped, LoggerContext, RecordsLogged
from hookline_faults.otlp import SPAN_ID, START, TRACE_ID, TRACED, Receiver, ended
from hookline_otel.endpoint import OtlpProtocol
from hookline_otel.log_exporter import LogExporter
from hookline_otel.log_sender import converted, severity
from hookline_otel.logger import OtelLogger
from hookline_otel.tally import Counts
from hookline_processes.logged_record import LoggedRecord
from hookline_testing.payloads import make_started, make_step

STOPPED = EngineStopped(engine_index=0, reason="closed")
RECORD = LoggedRecord(
    at=START,
    level=logging.WARNING,
    logger="hookline_server.sending",
    message="the client of r-1 left",
    fields={"request_id": "r-1", "seconds": 0.5, "left_out": 3, "absent": None},
    thread="MainThread",
    path="/srv/sending.py",
    line=44,
    trace_id=TRACE_ID,
    span_id=SPAN_ID,
)
NOWHERE = "http://127.0.0.1:9"

texts = st.text(st.characters(codec="utf-8"))
fields = st.none() | texts | st.booleans() | st.floats(allow_nan=False)
records = st.builds(
    LoggedRecord,
    at=st.integers(0, 2**63),
    level=st.integers(0, 60),
    logger=texts,
    message=texts,
    fields=st.dictionaries(texts, fields, max_size=4),
    exception=texts,
    process=texts,
    thread=texts,
    path=texts,
    line=st.integers(0, 10_000),
    trace_id=st.sampled_from(["", TRACE_ID, "0" * 32, "nonsense"]),
    span_id=st.sampled_from(["", SPAN_ID, "0" * 16, "nonsense"]),
)


@pytest.fixture(params=list(OtlpProtocol))
def receiver(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    with Receiver(request.param) as started:
        yield started


@pytest.fixture
def grpc_receiver() -> Iterator[Receiver]:
    with Receiver(OtlpProtocol.GRPC) as started:
        yield started


def create(**options: str) -> OtelLogger:
    logger = hookline_otel.create_stat_logger(
        LoggerContext(name="otel", config=EngineConfig(), options=options)
    )
    assert isinstance(logger, OtelLogger)
    return logger


def exporter(receiver: Receiver, **options: str) -> LogExporter:
    """A logger that sends the log to the receiver."""
    logger = create(
        logs_endpoint=receiver.url, protocol=str(receiver.protocol), **options
    )
    assert isinstance(logger, LogExporter)
    return logger


def send(receiver: Receiver, *logged: LoggedRecord, **options: str) -> list[LogRecord]:
    """Lets an engine live while these are logged; what the collector got."""
    logger = exporter(receiver, **options)
    logger.engine_started(make_started())
    logger.records_logged(RecordsLogged(records=logged))
    logger.engine_stopped(STOPPED)
    return receiver.inbox.records


def encoded(record: LoggedRecord) -> Sequence[ScopeLogs]:
    """What the exporters make of a record."""
    readable = ReadableLogRecord(
        converted(record, 7),
        Resource.get_empty(),
        instrumentation_scope=InstrumentationScope(record.logger),
    )
    [resource] = encode_logs([readable]).resource_logs
    return resource.scope_logs


def attributes(record: LogRecord) -> dict[str, AnyValue]:
    return {pair.key: pair.value for pair in record.attributes}


def test_line_of_a_request_is_joined_to_its_span(receiver: Receiver) -> None:
    """Over either protocol, the record has the trace and the span of its request."""
    logger = exporter(receiver, traces_endpoint=receiver.url)
    logger.engine_started(make_started())
    logger.step_finished(make_step(ended(TRACED)))
    logger.records_logged(RecordsLogged(records=(RECORD,)))
    logger.engine_stopped(STOPPED)

    [record] = receiver.inbox.records
    spans = {(span.trace_id, span.span_id) for span in receiver.inbox.spans}
    assert (record.trace_id, record.span_id) in spans
    assert record.flags == 1
    assert record.time_unix_nano == START
    assert record.observed_time_unix_nano > START
    assert (record.severity_number, record.severity_text) == (13, "WARNING")
    assert record.body.string_value == "the client of r-1 left"
    found = attributes(record)
    assert found["request_id"].string_value == "r-1"
    assert found["seconds"].double_value == 0.5
    assert found["left_out"].int_value == 3
    assert found["code.line.number"].int_value == 44
    assert "absent" not in found
    [scope] = receiver.inbox.logs[0].resource_logs[0].scope_logs
    assert scope.scope.name == "hookline_server.sending"


@given(records)
def test_record_is_what_its_message_would_be(record: LoggedRecord) -> None:
    """Any record is the one that the message's own class describes."""
    [scope] = encoded(record)
    assert scope.scope.name == record.logger
    [found] = scope.log_records
    has_trace = record.trace_id == TRACE_ID
    has_span = has_trace and record.span_id == SPAN_ID
    assert found.trace_id.hex() == (TRACE_ID if has_trace else "")
    assert found.span_id.hex() == (SPAN_ID if has_span else "")
    assert found.flags == int(has_span)
    assert (found.time_unix_nano, found.observed_time_unix_nano) == (record.at, 7)
    assert found.severity_number == severity(record.level).value
    assert found.body == AnyValue(string_value=record.message)
    assert attributes(found).get("exception.stacktrace", AnyValue()) == (
        AnyValue(string_value=record.exception) if record.exception else AnyValue()
    )
    for name, value in record.fields.items():
        if value == "" or value is None:
            assert name not in attributes(found)
        elif isinstance(value, str):
            pair = KeyValue(key=name, value=AnyValue(string_value=value))
            assert pair in found.attributes


@pytest.mark.parametrize(
    ("level", "number"), [(5, 1), (10, 5), (20, 9), (25, 9), (40, 17), (50, 21)]
)
def test_levels_have_otlps_severities(level: int, number: int) -> None:
    """Each of Python's levels begins a range."""
    assert severity(level).value == number


def test_records_are_grouped_by_their_logger(grpc_receiver: Receiver) -> None:
    """Each Python logger is a scope; order within it stays."""
    send(
        grpc_receiver,
        *(
            LoggedRecord(at=1, level=30, logger=name, message=text)
            for name, text in (("a", "1"), ("b", "2"), ("a", "3"))
        ),
    )

    [resource] = grpc_receiver.inbox.logs[0].resource_logs
    assert "service.name" in {pair.key for pair in resource.resource.attributes}
    assert [
        (scope.scope.name, [each.body.string_value for each in scope.log_records])
        for scope in resource.scope_logs
    ] == [("a", ["1", "3"]), ("b", ["2"])]


def test_invalid_unicode_harms_no_other_record(grpc_receiver: Receiver) -> None:
    """Lone surrogates, which no message may have, are replaced."""
    bad = LoggedRecord(
        at=1, level=30, logger="x", message="a\ud800", fields={"b": "c\ud800"}
    )

    found = send(grpc_receiver, bad, RECORD)

    assert [each.body.string_value for each in found] == ["a?", RECORD.message]
    assert attributes(found[0])["b"].string_value == "c?"


@pytest.mark.parametrize(
    "own",
    [
        LoggedRecord(at=1, level=30, logger="hookline_otel", message="cannot send"),
        LoggedRecord(at=1, level=30, logger="grpc._channel", message="retry"),
        LoggedRecord(
            at=1, level=10, logger="x", message="sent", thread="hookline-otel-logs"
        ),
        LoggedRecord(
            at=1,
            level=10,
            logger="x",
            message="sent",
            thread="OtelBatchLogRecordProcessor",
        ),
    ],
)
def test_exporter_does_not_export_itself(
    grpc_receiver: Receiver, own: LoggedRecord
) -> None:
    """What it and its libraries log would make more of the same."""
    records = send(grpc_receiver, own, RECORD)

    assert [each.body.string_value for each in records] == [RECORD.message]


def test_collector_that_is_down_feeds_no_records(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The lost records are counted and warned of, and the warning is not exported."""
    logger = create(logs_endpoint=NOWHERE, flush_seconds="0.5")
    assert isinstance(logger, LogExporter)
    assert logger.logs is not None
    logger.engine_started(make_started())
    logger.records_logged(RecordsLogged(records=(RECORD, RECORD)))
    logger.engine_stopped(STOPPED)

    warned = [each for each in caplog.records if each.name == "hookline_otel"]
    assert warned
    assert "cannot send logs to 127.0.0.1:9" in warned[0].getMessage()
    counts = logger.logs.counts
    assert (counts.exported, counts.failed + counts.dropped) == (0, 2)

    again = LoggedRecord(at=1, level=30, logger=warned[0].name, message="x")
    logger.records_logged(RecordsLogged(records=(again,)))
    assert logger.logs.counts == counts


def test_full_queue_drops_and_counts(
    grpc_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook never waits; what the server has missed counts as dropped, too."""
    monkeypatch.setenv("OTEL_BLRP_MAX_QUEUE_SIZE", "10")
    grpc_receiver.inbox.gate.clear()  # so that none of them gets away meanwhile
    logger = exporter(grpc_receiver, flush_seconds="0.1")
    assert logger.logs is not None

    logger.records_logged(RecordsLogged(records=(RECORD,) * 15, missed=2))

    assert logger.logs.counts == Counts(dropped=7)
    grpc_receiver.inbox.gate.set()
    logger.close()


def test_lost_records_are_metrics(grpc_receiver: Receiver) -> None:
    """Counts of sent and lost records are pushed with the metrics."""
    logger = exporter(grpc_receiver, metrics_endpoint=grpc_receiver.url)
    logger.engine_started(make_started())
    logger.records_logged(RecordsLogged(records=(), missed=4))
    logger.engine_stopped(STOPPED)

    metrics = grpc_receiver.inbox.last_metrics
    assert {
        name: metrics[f"hookline_otel_{name}_log_records"].sum.data_points[0].as_double
        for name in ("exported", "failed", "dropped")
    } == {"exported": 0, "failed": 0, "dropped": 4}


def test_log_is_collected_only_if_it_is_exported() -> None:
    """Without the option nothing listens, so that the server collects nothing."""
    plugins = pluggy.PluginManager("hookline")
    plugins.add_hookspecs(hookspecs)
    plugins.register(create(traces_endpoint=NOWHERE))

    assert not plugins.hook.records_logged.get_hookimpls()

    plugins.register(create(logs_endpoint=NOWHERE))
    plugins.check_pending()

    assert len(plugins.hook.records_logged.get_hookimpls()) == 1
