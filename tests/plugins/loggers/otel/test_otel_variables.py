"""Every variable of OpenTelemetry's specification: it has its effect, or a warning."""

import logging
import os
from collections.abc import Callable, Mapping

import pytest
from opentelemetry.sdk._logs import LogRecordLimits
from opentelemetry.sdk.trace import SpanLimits

from hookline.config import EngineConfig
from hookline.payloads import LoggerContext
from hookline_otel.batching import Batching
from hookline_otel.endpoint import Endpoint, OtlpProtocol, Signal
from hookline_otel.options import Options
from hookline_otel.resource import make_resource
from hookline_otel.transport_settings import TransportSettings
from hookline_otel.variables import WITHOUT_EFFECT, has_exemplars
from hookline_server.trace_rules import TraceRules

URL = "http://collector:4317"
CLIENT = {
    "traceparent": f"00-{7:032x}-{8:016x}-00",
    "b3": f"{9:032x}-{8:016x}-1",
}


def options(environment: Mapping[str, str], **given: str) -> Options:
    context = LoggerContext(name="otel", config=EngineConfig(), options=given)
    shared = {"OTEL_EXPORTER_OTLP_ENDPOINT": URL}  # and otherwise there is no endpoint
    set_ones = {name: each for name, each in environment.items() if each}
    return Options.read(context, {**environment, **shared, **set_ones})


def logs(environment: Mapping[str, str]) -> object:
    return options(environment, logs="true").logs


def settings(signal: Signal) -> Callable[[Mapping[str, str]], object]:
    def read(environment: Mapping[str, str]) -> object:
        endpoint = Endpoint("https://collector", OtlpProtocol.HTTP)
        return TransportSettings.read(signal, endpoint, None, environment)

    return read


def batching(signal: Signal) -> Callable[[Mapping[str, str]], object]:
    return lambda environment: Batching.of(signal, environment)


def limits(environment: Mapping[str, str]) -> object:
    """The SDK reads them from the process's environment."""
    options(environment)
    return vars(SpanLimits()), vars(LogRecordLimits())


def resource(_: Mapping[str, str]) -> object:
    """Likewise."""
    attributes = make_resource(None).attributes
    return {name: each for name, each in attributes.items() if "instance" not in name}


def rules(environment: Mapping[str, str]) -> object:
    found = TraceRules.of(environment)
    return found.ratio, found.trace_of(CLIENT)


def sdk_level(environment: Mapping[str, str]) -> object:
    options(environment)
    return logging.getLogger("opentelemetry").level


FILE = __file__
OTLP = {
    "ENDPOINT": "http://elsewhere:4318",
    "PROTOCOL": "http/protobuf",
    "INSECURE": "true",
}
TRANSPORT = {
    "CERTIFICATE": FILE,
    "CLIENT_CERTIFICATE": FILE,
    "CLIENT_KEY": FILE,
    "COMPRESSION": "gzip",
    "HEADERS": "a=b",
    "TIMEOUT": "1234",
}
Look = Callable[[Mapping[str, str]], object]
READ: dict[Signal, Look] = {
    Signal.TRACES: lambda environment: options(environment).traces,
    Signal.METRICS: lambda environment: options(environment).metrics,
    Signal.LOGS: logs,
}
BATCHES = {
    "SCHEDULE_DELAY": "17",
    "MAX_QUEUE_SIZE": "1000",
    "MAX_EXPORT_BATCH_SIZE": "17",
}

SPECIFICATION = """
OTEL_SDK_DISABLED OTEL_ENTITIES OTEL_RESOURCE_ATTRIBUTES OTEL_SERVICE_NAME
OTEL_LOG_LEVEL OTEL_PROPAGATORS OTEL_TRACES_SAMPLER OTEL_TRACES_SAMPLER_ARG
OTEL_BSP_SCHEDULE_DELAY OTEL_BSP_EXPORT_TIMEOUT OTEL_BSP_MAX_QUEUE_SIZE
OTEL_BSP_MAX_EXPORT_BATCH_SIZE
OTEL_BLRP_SCHEDULE_DELAY OTEL_BLRP_EXPORT_TIMEOUT OTEL_BLRP_MAX_QUEUE_SIZE
OTEL_BLRP_MAX_EXPORT_BATCH_SIZE
OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT OTEL_ATTRIBUTE_COUNT_LIMIT
OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT
OTEL_SPAN_EVENT_COUNT_LIMIT OTEL_SPAN_LINK_COUNT_LIMIT OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT
OTEL_LINK_ATTRIBUTE_COUNT_LIMIT
OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT
OTEL_EXPORTER_ZIPKIN_ENDPOINT OTEL_EXPORTER_ZIPKIN_TIMEOUT
OTEL_EXPORTER_PROMETHEUS_HOST OTEL_EXPORTER_PROMETHEUS_PORT
OTEL_TRACES_EXPORTER OTEL_METRICS_EXPORTER OTEL_LOGS_EXPORTER
OTEL_METRICS_EXEMPLAR_FILTER OTEL_METRIC_EXPORT_INTERVAL OTEL_METRIC_EXPORT_TIMEOUT
OTEL_EXPERIMENTAL_CONFIG_FILE OTEL_CONFIG_FILE
OTEL_EXPORTER_OTLP_SPAN_INSECURE OTEL_EXPORTER_OTLP_METRIC_INSECURE
OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE
OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION
OTEL_SEMCONV_STABILITY_OPT_IN
"""
"""All but those of OTLP exporters for each signal."""

Effect = tuple[str, Look]
EFFECTS: dict[str, Effect] = {
    "OTEL_SDK_DISABLED": ("true", options),
    "OTEL_RESOURCE_ATTRIBUTES": ("team=a,service.version=9", resource),
    "OTEL_SERVICE_NAME": ("chat", resource),
    "OTEL_LOG_LEVEL": ("error", sdk_level),
    "OTEL_PROPAGATORS": ("b3", rules),
    "OTEL_TRACES_SAMPLER": ("always_on", rules),
    "OTEL_TRACES_EXPORTER": ("console", options),
    "OTEL_METRICS_EXPORTER": ("none", options),
    "OTEL_LOGS_EXPORTER": ("otlp", options),
    "OTEL_METRIC_EXPORT_INTERVAL": ("1234", options),
    "OTEL_METRIC_EXPORT_TIMEOUT": ("1234", settings(Signal.METRICS)),
    "OTEL_METRICS_EXEMPLAR_FILTER": ("always_off", has_exemplars),
    "OTEL_SEMCONV_STABILITY_OPT_IN": ("http,gen_ai_latest_experimental/dup", options),
    "OTEL_BSP_EXPORT_TIMEOUT": ("1234", settings(Signal.TRACES)),
    "OTEL_BLRP_EXPORT_TIMEOUT": ("1234", settings(Signal.LOGS)),
    **{f"OTEL_BSP_{n}": (v, batching(Signal.TRACES)) for n, v in BATCHES.items()},
    **{f"OTEL_BLRP_{n}": (v, batching(Signal.LOGS)) for n, v in BATCHES.items()},
    **{
        f"OTEL_{name}_LIMIT": ("7", limits)
        for name in (
            "ATTRIBUTE_COUNT",
            "ATTRIBUTE_VALUE_LENGTH",
            "EVENT_ATTRIBUTE_COUNT",
            "LINK_ATTRIBUTE_COUNT",
            "LOGRECORD_ATTRIBUTE_COUNT",
            "LOGRECORD_ATTRIBUTE_VALUE_LENGTH",
            "SPAN_ATTRIBUTE_COUNT",
            "SPAN_ATTRIBUTE_VALUE_LENGTH",
            "SPAN_EVENT_COUNT",
            "SPAN_LINK_COUNT",
        )
    },
    **{
        f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}": (value, READ[signal])
        for signal in Signal
        for name, value in OTLP.items()
        if name != "INSECURE"
    },
    **{
        f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}": (value, settings(signal))
        for signal in Signal
        for name, value in TRANSPORT.items()
    },
    **{
        f"OTEL_EXPORTER_OTLP_{name}": (value, READ[Signal.TRACES])
        for name, value in OTLP.items()
        if name != "INSECURE"
    },
    **{
        f"OTEL_EXPORTER_OTLP_{name}": (value, settings(Signal.TRACES))
        for name, value in TRANSPORT.items()
    },
}
"""By variable a value, and what it changes."""

WITH_OTHERS: dict[str, tuple[dict[str, str], Effect]] = {
    "OTEL_TRACES_SAMPLER_ARG": (
        {"OTEL_TRACES_SAMPLER": "traceidratio"},
        ("0.5", rules),
    ),
    **{
        f"OTEL_EXPORTER_OTLP_{prefix}INSECURE": (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"},
            ("true", READ[signal]),
        )
        for signal, prefix in [(Signal.TRACES, "")]
        + [(each, f"{each.upper()}_") for each in Signal]
    },
}
"""Variables that matter only beside others."""

WARNED = {
    **dict.fromkeys(WITHOUT_EFFECT, "x"),
    "OTEL_EXPORTER_ZIPKIN_ENDPOINT": URL,
    "OTEL_EXPORTER_ZIPKIN_TIMEOUT": "7",
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta",
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "base2_exponential_"
    "bucket_histogram",
}


@pytest.fixture(autouse=True)
def _level() -> None:
    logging.getLogger("opentelemetry").setLevel(logging.NOTSET)


def test_variables_have_their_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each changes what the specification says that it does; an empty one nothing."""
    faults: list[str] = []
    cases: dict[str, tuple[dict[str, str], Effect]] = {
        **{name: ({}, effect) for name, effect in EFFECTS.items()},
        **WITH_OTHERS,
    }
    for name, (others, (value, look)) in cases.items():
        found: list[object] = []
        for text in (None, "", value):
            environment = others | ({} if text is None else {name: text})
            with monkeypatch.context() as patch:
                for each, content in environment.items():
                    patch.setenv(each, content)
                found.append(look(environment))
            logging.getLogger("opentelemetry").setLevel(logging.NOTSET)
        without, empty, changed = found
        if empty != without:
            faults.append(f"{name}: an empty value is not like none")
        if changed == without:
            faults.append(f"{name}={value} changes nothing")

    assert not faults, "\n".join(faults)


def test_variables_without_effect_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """With the reason, so that nobody waits for what they ask for."""
    options(WARNED)

    lines = [record.getMessage() for record in caplog.records]
    assert [
        name
        for name in WARNED
        if not any(
            line.startswith(
                (f"{name} has no effect: ", f"{name}={WARNED[name]} has no")
            )
            for line in lines
        )
    ] == []
    caplog.clear()
    options({"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "CUMULATIVE"})
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "value", "warning"),
    [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "must be an integer, 1 to"),
        ("OTEL_BLRP_SCHEDULE_DELAY", "soon", "must be an integer, 0 to"),
        ("OTEL_SPAN_EVENT_COUNT_LIMIT", "-1", "must be an integer, 0 to"),
        ("OTEL_LOG_LEVEL", "loud", "'loud' is none of none, fatal"),
        ("OTEL_METRICS_EXEMPLAR_FILTER", "some", "'some' is none of always_on"),
    ],
)
def test_wrong_variables_are_warnings(
    name: str,
    value: str,
    warning: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And the SDK, which would fail at some, does not see them any more."""
    monkeypatch.setenv(name, value)

    options(os.environ)
    Batching.of(Signal.TRACES, os.environ)
    Batching.of(Signal.LOGS, os.environ)
    has_exemplars(os.environ)

    assert f"{name} is ignored: {warning}" in caplog.text
    assert name not in os.environ


def test_variables_of_the_environment_are_the_specifications() -> None:
    """Of its groups, none is left out here."""
    known = {*EFFECTS, *WITH_OTHERS, *WARNED}
    parts = {*OTLP, *TRANSPORT}
    groups = ("", *(f"{signal.upper()}_" for signal in Signal))
    assert {
        f"OTEL_EXPORTER_OTLP_{group}{part}" for group in groups for part in parts
    } <= (known)
    assert set(SPECIFICATION.split()) <= known
