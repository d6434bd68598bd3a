"""The otel plugin as Hookline meets it."""

import subprocess
import sys

import pluggy
import pytest

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
from hookline_faults.otlp import Receiver, draw
from hookline_otel.endpoint import OtlpProtocol
from hookline_otel.logger import OtelLogger
from hookline_testing.logger_plugins import assert_hooks_exist

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
