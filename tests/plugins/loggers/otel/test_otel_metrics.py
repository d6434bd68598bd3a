"""Metrics as a collector receives them."""

import dataclasses
from collections.abc import Iterator
from dataclasses import replace

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    HistogramDataPoint,
    Metric,
)

import hookline_otel
from hookline.config import EngineConfig
from hookline.events import ClockPair
from hookline.finish_cause import Rejected
from hookline.payloads import (
    EngineFailed,
    EngineStarted,
    EngineStopped,
    FrontEndChanged,
    HttpAnswered,
    HttpExchange,
    LoggerContext,
)
from hookline.request import FinishReason, RequestFacts
from hookline.stats.finished_request import FinishedRequest
from hookline.stats.iteration_stats import FirstScheduled, IterationStats
from hookline.stats.scheduler_stats import EngineTotals, SchedulerStats
from hookline_faults.otlp import SPAN_ID, START, TRACE_ID, TRACED, Receiver, ended
from hookline_metrics import Kind
from hookline_metrics.config import MetricsConfig
from hookline_metrics.front_end_parts import ServerAddress
from hookline_otel.endpoint import OtlpProtocol
from hookline_otel.genai_metrics import MAX_ERRORS
from hookline_otel.logger import OtelLogger
from hookline_otel.metric_source import make_recorder
from hookline_testing.payloads import CAUSES, FACTS, make_started, make_state, make_step

STOPPED = EngineStopped(engine_index=0, reason="closed")
STARTED = EngineStarted(facts=FACTS, clock=ClockPair(wall=START, monotonic=0))
CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


@pytest.fixture(params=list(OtlpProtocol))
def receiver(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    with Receiver(request.param) as started:
        yield started


@pytest.fixture
def grpc_receiver() -> Iterator[Receiver]:
    with Receiver(OtlpProtocol.GRPC) as started:
        yield started


def create(
    receiver: Receiver, config: EngineConfig | None = None, /, **options: str
) -> OtelLogger:
    """A logger that sends metrics to the receiver."""
    context = LoggerContext(
        name="otel",
        config=config or EngineConfig(),
        options={
            "metrics_endpoint": receiver.url,
            "protocol": receiver.protocol,
            **options,
        },
    )
    logger = hookline_otel.create_stat_logger(context)
    assert isinstance(logger, OtelLogger)
    return logger


def push(receiver: Receiver, *requests: FinishedRequest) -> dict[str, Metric]:
    """The last push of an engine that lived for these requests."""
    logger = create(receiver)
    logger.engine_started(STARTED)
    logger.step_finished(make_step(ended(*requests)))
    logger.engine_stopped(STOPPED)
    return receiver.inbox.last_metrics


def labels(point: HistogramDataPoint) -> dict[str, str]:
    return {pair.key: pair.value.string_value for pair in point.attributes}


def test_a_replaced_engine_is_pushed_on(receiver: Receiver) -> None:
    """Its failure ends nothing; what the new process counts arrives, too."""
    logger = create(receiver, traces_endpoint=receiver.url)
    logger.engine_started(STARTED)
    failed = EngineFailed(engine_index=0, reason="x", open_requests=0, is_final=False)

    logger.engine_failed(failed)
    logger.engine_started(dataclasses.replace(STARTED, restart_cause="failed"))
    logger.step_finished(
        make_step(IterationStats(), SchedulerStats(totals=EngineTotals(received=4)))
    )
    logger.engine_failed(EngineFailed(engine_index=0, reason="x", open_requests=0))

    received = receiver.inbox.last_metrics["hookline_requests_received"]
    assert [point.as_double for point in received.sum.data_points] == [4]


def test_catalogue_arrives_with_its_numbers(receiver: Receiver) -> None:
    """Over either protocol, counters, gauges and histograms have their values."""
    logger = create(receiver, traces_endpoint=receiver.url)
    logger.engine_started(STARTED)
    waited = FirstScheduled(queue_seconds=0.5, trace_id=TRACE_ID, span_id=SPAN_ID)
    iteration = IterationStats(first_scheduled=(waited, waited))
    state = SchedulerStats(running=2, waiting=3, totals=EngineTotals(received=9))

    logger.step_finished(make_step(iteration, state))
    logger.engine_failed(EngineFailed(engine_index=0, reason="x", open_requests=0))

    metrics = receiver.inbox.last_metrics
    received = metrics["hookline_requests_received"]
    assert received.unit == "{requests}"
    assert received.description
    assert received.sum.is_monotonic
    assert received.sum.aggregation_temporality == CUMULATIVE
    (point,) = received.sum.data_points
    assert point.as_double == 9
    assert point.start_time_unix_nano == START
    assert point.time_unix_nano > START
    assert {pair.key: pair.value.string_value for pair in point.attributes} == {
        "model_name": "tiny",
        "engine": "0",
    }
    (running,) = metrics["hookline_requests_running"].gauge.data_points
    assert running.as_double == 0  # it has failed

    queue = metrics["hookline_request_queue_seconds"]
    (queued,) = queue.histogram.data_points
    assert queue.unit == "s"
    assert queue.histogram.aggregation_temporality == CUMULATIVE
    assert (queued.count, queued.sum) == (2, 1.0)
    assert sum(queued.bucket_counts) == 2
    assert len(queued.bucket_counts) == len(queued.explicit_bounds) + 1
    assert not queued.HasField("min")
    [exemplar] = queued.exemplars
    assert exemplar.as_double == 0.5
    assert (exemplar.trace_id.hex(), exemplar.span_id.hex()) == (TRACE_ID, SPAN_ID)
    assert START < exemplar.time_unix_nano <= queued.time_unix_nano


def test_every_family_of_the_catalogue_is_pushed(grpc_receiver: Receiver) -> None:
    """All of the recorder's families arrive under Hookline's names."""
    recorder = make_recorder(EngineConfig())
    recorder.engine_started(STARTED)
    families = [family for family in recorder.snapshot() if family.samples]

    metrics = push(grpc_receiver)

    shapes = {Kind.COUNTER: "sum", Kind.GAUGE: "gauge", Kind.HISTOGRAM: "histogram"}
    assert families
    for family in families:
        assert metrics[family.name].WhichOneof("data") == shapes[family.kind]
    assert not [name for name in metrics if name.startswith("vllm:")]


def test_metrics_obey_the_configuration(grpc_receiver: Receiver) -> None:
    """Constant labels and left-out families hold here as on a page."""
    config = EngineConfig(
        sections={
            "metrics": MetricsConfig(
                dialects=("vllm",),
                labels={"region": "eu"},
                exclude=("hookline_preemptions*",),
            )
        }
    )
    logger = create(grpc_receiver, config)

    logger.engine_started(STARTED)
    logger.engine_stopped(STOPPED)

    metrics = grpc_receiver.inbox.last_metrics
    (point,) = metrics["hookline_requests_received"].sum.data_points
    assert "region" in {pair.key for pair in point.attributes}
    assert "hookline_preemptions" not in metrics


def test_http_requests_are_in_the_metrics(grpc_receiver: Receiver) -> None:
    """What a server answered is pushed with the rest."""
    exchange = HttpExchange(
        route="/v1/models",
        method="GET",
        status=200,
        seconds=0.5,
        request_bytes=0,
        response_bytes=9,
    )
    logger = create(grpc_receiver)
    logger.engine_started(STARTED)

    logger.http_answered(HttpAnswered(exchanges=(exchange,), in_flight={}))

    logger.engine_stopped(STOPPED)
    values = [
        pair.value.string_value
        for name, metric in grpc_receiver.inbox.last_metrics.items()
        if "http" in name
        for point in metric.sum.data_points
        for pair in point.attributes
    ]
    assert "/v1/models" in values


BOUNDS = {
    "gen_ai.server.request.duration": [
        *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48),
        *(40.96, 81.92),
    ],
    "gen_ai.server.time_per_output_token": [
        *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5),
    ],
    "gen_ai.server.time_to_first_token": [
        *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0),
        *(2.5, 5.0, 7.5, 10.0),
    ],
}
LABELS = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "hookline",
    "gen_ai.request.model": "tiny",
    "gen_ai.response.model": "tiny",
}


@pytest.mark.parametrize(
    ("name", "value", "bucket"),
    [
        ("gen_ai.server.request.duration", 6.0, 10),
        ("gen_ai.server.time_per_output_token", 1.125, 12),  # (6 − 1.5) ÷ (5 − 1)
        ("gen_ai.server.time_to_first_token", 1.5, 12),
    ],
)
def test_conventions_histograms_have_their_buckets(
    receiver: Receiver, name: str, value: float, bucket: int
) -> None:
    """Each has exactly the conventions' bounds, unit and attributes."""
    metric = push(receiver, TRACED)[name]

    (point,) = metric.histogram.data_points
    assert metric.unit == "s"
    assert list(point.explicit_bounds) == BOUNDS[name]
    assert (point.count, point.sum) == (1, value)
    assert point.bucket_counts[bucket] == 1
    assert labels(point) == LABELS
    [exemplar] = point.exemplars
    assert exemplar.as_double == value
    assert (exemplar.trace_id.hex(), exemplar.span_id.hex()) == (TRACE_ID, SPAN_ID)


def test_conventions_histograms_name_the_server(grpc_receiver: Receiver) -> None:
    """Address and port of the API are attributes; the port is a number."""
    logger = create(grpc_receiver)
    logger.engine_started(STARTED)
    logger.step_finished(make_step(ended(TRACED)))

    address = ServerAddress(host="host.example", port=8000)
    logger.front_end_changed(FrontEndChanged(parts=(address,)))

    logger.engine_stopped(STOPPED)
    metric = grpc_receiver.inbox.last_metrics["gen_ai.server.time_to_first_token"]
    [point] = metric.histogram.data_points
    found = {pair.key: pair.value for pair in point.attributes}
    assert found["server.address"].string_value == "host.example"
    assert found["server.port"].int_value == 8000


@pytest.mark.parametrize(
    ("reason", "error", "is_success"),
    [
        (FinishReason.STOP, None, True),
        (FinishReason.LENGTH, None, True),
        (FinishReason.ABORT, None, False),
        (FinishReason.ERROR, "engine_error", False),
        (FinishReason.REJECTED, "overloaded", False),
    ],
)
def test_conventions_histograms_separate_successes(
    grpc_receiver: Receiver, reason: FinishReason, error: str | None, is_success: bool
) -> None:
    """All requests have a duration; times per token only those that succeeded."""
    metrics = push(grpc_receiver, replace(TRACED, cause=CAUSES[reason]))

    (point,) = metrics["gen_ai.server.request.duration"].histogram.data_points
    assert labels(point).get("error.type") == error
    assert ("gen_ai.server.time_to_first_token" in metrics) is is_success
    assert ("gen_ai.server.time_per_output_token" in metrics) is is_success


def test_one_token_has_no_time_per_token(grpc_receiver: Receiver) -> None:
    """There is nothing to divide by."""
    metrics = push(grpc_receiver, replace(TRACED, output_tokens=1))

    assert "gen_ai.server.time_per_output_token" not in metrics
    assert "gen_ai.server.time_to_first_token" in metrics


def test_clients_add_no_series(grpc_receiver: Receiver) -> None:
    """However many ids, tenants and operations come, the series stay the same."""
    requests = [
        replace(
            TRACED,
            facts=RequestFacts(
                client_id=f"id-{number}",
                tenant=f"tenant-{number}",
                operation=f"operation-{number}",
            ),
        )
        for number in range(100)
    ]

    metrics = push(grpc_receiver, *requests)

    (point,) = metrics["gen_ai.server.request.duration"].histogram.data_points
    assert labels(point)["gen_ai.operation.name"] == "_OTHER"
    assert point.count == 100


def test_errors_add_few_series(grpc_receiver: Receiver) -> None:
    """However many codes there are, the kinds of error are bounded."""
    requests = [
        replace(TRACED, cause=Rejected(f"code_{number}", "")) for number in range(100)
    ]

    metrics = push(grpc_receiver, *requests)

    points = metrics["gen_ai.server.request.duration"].histogram.data_points
    counts = {labels(point)["error.type"]: point.count for point in points}
    assert len(counts) == MAX_ERRORS + 1
    assert counts["code_0"] == 1
    assert counts["_OTHER"] == 100 - MAX_ERRORS


@pytest.mark.parametrize(
    "facts",
    [
        RequestFacts(trace_id="not hexadecimal", span_id=SPAN_ID),
        RequestFacts(trace_id=TRACE_ID, span_id="not hexadecimal"),
    ],
)
def test_illegal_ids_spoil_no_push(
    grpc_receiver: Receiver, facts: RequestFacts
) -> None:
    """An exemplar that cannot be sent is left out."""

    metrics = push(grpc_receiver, replace(TRACED, facts=facts))

    points = metrics["hookline_request_e2e_seconds"].histogram.data_points
    assert [(point.count, len(point.exemplars)) for point in points] == [(1, 0)]


def test_lost_spans_are_metrics(grpc_receiver: Receiver) -> None:
    """Counts of sent and lost spans are in the same stream."""
    logger = create(
        grpc_receiver, traces_endpoint=grpc_receiver.url, metrics_interval="0.05"
    )
    logger.engine_started(STARTED)
    logger.state_changed(make_state(ended(TRACED)))
    grpc_receiver.inbox.wait_for(lambda inbox: len(inbox.spans) == 6)
    pushes = len(grpc_receiver.inbox.metrics)

    grpc_receiver.inbox.wait_for(lambda inbox: len(inbox.metrics) > pushes + 2)

    logger.engine_stopped(STOPPED)
    metrics = grpc_receiver.inbox.last_metrics
    values = {
        name: metrics[f"hookline_otel_{name}"].sum.data_points[0].as_double
        for name in (
            "exported_spans",
            "failed_spans",
            "dropped_spans",
            "failed_metric_exports",
        )
    }
    assert values == {
        "exported_spans": 6,
        "failed_spans": 0,
        "dropped_spans": 0,
        "failed_metric_exports": 0,
    }


def test_several_engines_share_one_logger(grpc_receiver: Receiver) -> None:
    """Sending goes on until the last engine has stopped."""
    logger = create(grpc_receiver)
    other = replace(FACTS, engine_index=1, model_name="large")
    logger.engine_started(STARTED)
    logger.engine_started(make_started(other))

    logger.engine_stopped(STOPPED)

    assert logger.metrics is not None
    assert logger.metrics.sender.is_running
    logger.engine_stopped(EngineStopped(engine_index=1, reason="closed"))
    assert not logger.metrics.sender.is_running
    points = grpc_receiver.inbox.last_metrics["hookline_requests_received"].sum
    assert len(points.data_points) == 2
