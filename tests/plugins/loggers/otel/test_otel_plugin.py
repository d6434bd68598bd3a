"""The otel plugin as Hookline meets it."""

import subprocess
import sys

import pluggy
import pytest
from opentelemetry import trace
from opentelemetry.sdk._logs.export import ConsoleLogRecordExporter
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import hookline_otel
from hookline import LLM, SamplingParams, hookspecs
from hookline.config import (
    EngineConfig,
    ExecutorConfig,
    ObserverConfig,
)
from hookline.finish_cause import Rejected
from hookline.payloads import LoggerContext
from hookline.request import RequestFacts
from hookline_faults.otlp import SPAN_ID, TRACE_ID, TRACED, Receiver, draw, ended
from hookline_otel.endpoint import OtlpProtocol
from hookline_otel.envelope import Envelope
from hookline_otel.exporters import Exporters
from hookline_otel.log_exporter import LogExporter
from hookline_otel.logger import OtelLogger
from hookline_otel.options import Semconv
from hookline_otel.resource import make_scope
from hookline_testing.logger_plugins import assert_hooks_exist
from hookline_testing.payloads import make_step

FREE_OF_FACTS = {
    "engine_failed",
    "engine_started",
    "engine_stopped",
    "front_end_changed",
    "http_answered",
    "state_changed",
    "step_finished",
}


def create(**options: str) -> OtelLogger:
    """The logger as its hook makes it."""
    logger = hookline_otel.create_stat_logger(
        LoggerContext(name="otel", config=EngineConfig(), options=options)
    )
    assert isinstance(logger, OtelLogger)
    return logger


def test_plugin_agrees_with_the_specs() -> None:
    """The module and its logger implement only hooks there are."""
    assert_hooks_exist(hookline_otel, create(traces_endpoint="http://localhost:4317"))


def test_logger_needs_no_facts_gathered() -> None:
    """It listens to no hook of single requests, which would cost each step."""
    plugins = pluggy.PluginManager("hookline")
    plugins.add_hookspecs(hookspecs)
    logger = create(traces_endpoint="http://localhost:4317")

    plugins.register(logger)

    callers = plugins.get_hookcallers(logger) or []
    assert {caller.name for caller in callers} == FREE_OF_FACTS


def tracing(url: str) -> EngineConfig:
    """A simulated engine that traces every request."""
    return EngineConfig(
        executor=ExecutorConfig(name="simulated"),
        observers=ObserverConfig(
            stat_loggers=("otel",),
            options={"otel": {"traces_endpoint": url}},
            trace_ratio=1.0,
        ),
    )


def test_engine_exports_its_requests() -> None:
    """Spans of a real engine's start and requests arrive in their places."""
    with Receiver(OtlpProtocol.GRPC) as receiver:
        with LLM.from_config(tracing(receiver.url)) as llm:
            llm.generate(["one", "two"], SamplingParams(max_tokens=3, ignore_eos=True))

        lines = draw(receiver.inbox.spans).splitlines()
        names = [line.split(" · ")[0] for line in lines if "· event" not in line]
        assert names[0] == "engine start"
        request = ["text_completion demo", "├ queue", "├ prefill", "└ decode"]
        assert names[-8:] == request * 2


def test_rejections_and_completions_are_one_span_each() -> None:
    """Two completions of a real engine are one request, and a rejection is another."""
    with Receiver(OtlpProtocol.GRPC) as receiver:
        with LLM.from_config(tracing(receiver.url)) as llm:
            params = SamplingParams(n=2, max_tokens=3, ignore_eos=True)
            llm.generate("one", params)
            llm.front_end.reject(RequestFacts(), Rejected("overloaded", ""))

        spans = receiver.inbox.spans
    served, rejected = [each for each in spans if each.name == "text_completion demo"]
    assert sum(each.parent_span_id == served.span_id for each in spans) == 6
    assert served.trace_id != rejected.trace_id
    [error] = [each for each in rejected.attributes if each.key == "error.type"]
    assert error.value.string_value == "overloaded"


Host = tuple[TracerProvider, InMemorySpanExporter]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    """A provider that the program has set, and what its exporter gets."""
    exported = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    # A program sets it once and for all.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return provider, exported


def test_a_programs_provider_gets_the_spans(host: Host) -> None:
    """As children of its current span, in one trace, without any endpoint."""
    provider, exported = host
    observers = ObserverConfig(stat_loggers=("otel",))
    config = EngineConfig(
        executor=ExecutorConfig(name="simulated"), observers=observers
    )

    with LLM.from_config(config) as llm:
        with provider.get_tracer("program").start_as_current_span("job") as job:
            llm.generate("one", SamplingParams(max_tokens=3))
        llm.generate("two", SamplingParams(max_tokens=3))
        llm.flush()

    spans = exported.get_finished_spans()
    [request] = [each for each in spans if each.name == "text_completion demo"]
    assert request.parent is not None
    assert request.parent.span_id == job.get_span_context().span_id
    assert request.context.trace_id == job.get_span_context().trace_id
    children = [each.name for each in spans if each.parent == request.context]
    assert children == ["queue", "prefill", "decode"]


def test_spans_of_a_programs_provider_have_the_ids_of_the_log(host: Host) -> None:
    """Which the front end chose when the request arrived."""
    logger = create()

    logger.step_finished(make_step(ended(TRACED)))

    root = host[1].get_finished_spans()[0]
    assert f"{root.context.trace_id:032x}" == TRACE_ID
    assert f"{root.context.span_id:016x}" == SPAN_ID
    assert root.resource is host[0].resource


def test_a_programs_sampler_may_refuse_the_spans(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the program's decision."""
    provider = TracerProvider(ALWAYS_OFF, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(host[1]))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    logger = create()

    logger.step_finished(make_step(ended(TRACED)))

    assert not host[1].get_finished_spans()


def test_an_endpoint_as_an_option_outranks_the_programs_provider(host: Host) -> None:
    """Who names one wants the spans there."""
    with Receiver(OtlpProtocol.GRPC) as receiver:
        logger = create(traces_endpoint=receiver.url)
        logger.step_finished(make_step(ended(TRACED)))
        logger.close()

        assert len(receiver.inbox.spans) == 6
    assert not host[1].get_finished_spans()


def test_other_exporters_are_made_by_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as the SDK's for the console, of every signal, without an endpoint."""
    for signal in ("TRACES", "METRICS", "LOGS"):
        monkeypatch.setenv(f"OTEL_{signal}_EXPORTER", "console")
    logger = create()
    assert isinstance(logger, LogExporter)
    assert logger.spans is not None
    assert logger.metrics is not None
    exporters, envelope = (
        Exporters(None),
        Envelope(Resource({}), make_scope(Semconv.VLLM)),
    )

    assert isinstance(
        exporters.of_spans(None, ("console",), envelope)[0], ConsoleSpanExporter
    )
    [metrics] = exporters.of_metrics(None, ("console",))
    assert isinstance(metrics, ConsoleMetricExporter)
    [records] = exporters.of_records(None, ("console",))
    assert isinstance(records, ConsoleLogRecordExporter)


MAKE_WITH_HTTP = """
import hookline_otel
from hookline.config import EngineConfig
from hookline.payloads import LoggerContext

options = {"traces_endpoint": "http://localhost", "protocol": "http/protobuf"}
context = LoggerContext(name="otel", config=EngineConfig(), options=options)
hookline_otel.create_stat_logger(context)
"""


@pytest.mark.parametrize(
    ("script", "absent"),
    [
        ("import hookline_otel", ["opentelemetry", "grpc", "requests"]),
        (MAKE_WITH_HTTP, ["grpc"]),
    ],
)
def test_optional_modules_are_not_imported(script: str, absent: list[str]) -> None:
    """Showing the options imports no OpenTelemetry, and HTTP no gRPC."""
    script += "\nimport sys; print(*sorted(sys.modules))"

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert not {*absent} & {*done.stdout.split()}
