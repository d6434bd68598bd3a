"""The otel plugin's options as users type them."""

import pytest

import hookline_otel
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline.payloads import LoggerContext
from hookline_otel.endpoint import Endpoint, OtlpProtocol
from hookline_otel.options import HELP, Options, Semconv
from hookline_testing.logger_plugins import DeclaredOptions

URL = "http://collector:4317"
GRPC, HTTP = OtlpProtocol


def context(**options: str) -> LoggerContext:
    """What the plugin is given when it is chosen."""
    return LoggerContext(name="otel", config=EngineConfig(), options=options)


def read(environment: dict[str, str] | None = None, /, **options: str) -> Options:
    """The options under an environment that holds nothing else."""
    return Options.read(context(**options), environment or {})


def test_options_are_declared_with_their_defaults() -> None:
    """The command line offers every option, with what holds without it."""
    declared = DeclaredOptions()

    hookline_otel.add_cli_options(declared)

    assert declared.defaults.keys() == HELP.keys()
    given = {
        key: value for key, value in declared.defaults.items() if value is not None
    }
    assert read(traces_endpoint=URL, **given) == read(traces_endpoint=URL)


def test_every_option_is_taken() -> None:
    """What is typed is what is done."""
    options = read(
        traces_endpoint="http://collector:4318",
        metrics_endpoint="https://other/custom",
        logs_endpoint="http://logs:4318",
        protocol="http/protobuf",
        headers="x-team=a%2Cb, Authorization=Bearer abc=",
        semconv="both",
        service_name="chat",
        metrics_interval="0.5",
        flush_seconds="1",
    )

    assert options == Options(
        traces=Endpoint("http://collector:4318/v1/traces", HTTP),
        metrics=Endpoint("https://other/custom", HTTP),
        logs=Endpoint("http://logs:4318/v1/logs", HTTP),
        headers={"x-team": "a,b", "authorization": "Bearer abc="},
        semconv=Semconv.BOTH,
        service_name="chat",
        metrics_interval_seconds=0.5,
        flush_seconds=1.0,
    )
    assert "Bearer" not in repr(options)


@pytest.mark.parametrize(
    ("environment", "traces", "metrics"),
    [
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://shared:4317/"},
            Endpoint("http://shared:4317", GRPC),
            Endpoint("http://shared:4317", GRPC),
        ),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://shared/otlp/",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            },
            Endpoint("http://shared/otlp/v1/traces", HTTP),
            Endpoint("http://shared/otlp/v1/metrics", HTTP),
        ),
        (
            {
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "grpc://traces:1",
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "https://metrics",
                "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "",
            },
            Endpoint("grpc://traces:1", GRPC),
            Endpoint("https://metrics/v1/metrics", HTTP),
        ),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": URL},
            Endpoint(URL, GRPC),
            None,
        ),
    ],
)
def test_standard_environment_names_endpoints(
    environment: dict[str, str], traces: Endpoint, metrics: Endpoint | None
) -> None:
    """Without options, the standard environment variables set the endpoints."""
    options = read(environment)

    assert (options.traces, options.metrics) == (traces, metrics)


@pytest.mark.parametrize(
    ("options", "logs"),
    [
        ({}, None),
        ({"logs": "true"}, Endpoint("http://shared:4317", GRPC)),
        ({"logs_endpoint": URL}, Endpoint(URL, GRPC)),
        ({"logs_endpoint": URL, "logs": "true"}, Endpoint(URL, GRPC)),
        ({"logs_endpoint": URL, "logs": "false"}, None),
    ],
)
def test_log_is_exported_only_if_asked_for(
    options: dict[str, str], logs: Endpoint | None
) -> None:
    """An endpoint for all signals, which many containers have, is not enough."""
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://shared:4317"}

    assert read(environment, **options).logs == logs


def test_option_wins_over_the_environment() -> None:
    """What is typed outranks what is set."""
    options = read(
        {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://elsewhere:1",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        },
        traces_endpoint=URL,
        protocol="grpc",
    )

    assert options.traces == Endpoint(URL, GRPC)


NO_URL = "must be a URL such as http://localhost:4317, not "


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {},
            "otel.traces_endpoint: no endpoint: set this, metrics_endpoint, logs",
        ),
        ({"colour": "red"}, "otel.colour: no such option; options: traces_endpoint,"),
        ({"traces_endpoint": ""}, f"otel.traces_endpoint: {NO_URL}''"),
        (
            {"traces_endpoint": "collector:x"},
            f"otel.traces_endpoint: {NO_URL}'collector:x'",
        ),
        (
            {"traces_endpoint": "a:1", "protocol": "http/protobuf"},
            f"otel.traces_endpoint: {NO_URL}'a:1'",
        ),
        ({"metrics_endpoint": "http://"}, f"otel.metrics_endpoint: {NO_URL}'http://'"),
        (
            {"traces_endpoint": "http://a:99999"},
            f"otel.traces_endpoint: {NO_URL}'http://a:99999'",
        ),
        (
            {"traces_endpoint": "http://a b"},
            f"otel.traces_endpoint: {NO_URL}'http://a b'",
        ),
        (
            {"traces_endpoint": "grpc://a:1", "protocol": "http/protobuf"},
            f"otel.traces_endpoint: {NO_URL}'grpc://a:1'",
        ),
        (
            {"traces_endpoint": "http://a:4318/v1/traces"},
            "otel.traces_endpoint: 'http://a:4318/v1/traces' has a path, which gRPC",
        ),
        (
            {"traces_endpoint": URL, "protocol": "http/json"},
            "otel.protocol: unknown protocol 'http/json'; known: grpc, http/protobuf",
        ),
        (
            {"traces_endpoint": URL, "logs": "yes"},
            "otel.logs: must be true or false, not 'yes'",
        ),
        (
            {"traces_endpoint": URL, "logs": "true"},
            "otel.logs: no endpoint: set logs_endpoint or the environment variable",
        ),
        (
            {"traces_endpoint": URL, "semconv": "old"},
            "otel.semconv: unknown conventions 'old'; known: genai, vllm, both",
        ),
        (
            {"traces_endpoint": URL, "headers": "secret"},
            "otel.headers: must be name=value,name=value",
        ),
        (
            {"traces_endpoint": URL, "headers": "a b=1"},
            "otel.headers: must be name=value,name=value",
        ),
        (
            {"traces_endpoint": URL, "headers": "a=%0d%0ab"},
            "otel.headers: the value of a is not printable ASCII",
        ),
        (
            {"traces_endpoint": URL, "service_name": " "},
            "otel.service_name: must not be empty",
        ),
        (
            {"traces_endpoint": URL, "metrics_interval": "soon"},
            "otel.metrics_interval: 'soon' is not a number of seconds",
        ),
        (
            {"traces_endpoint": URL, "metrics_interval": "0"},
            "otel.metrics_interval: must be above 0 and at most 3600 seconds, not 0",
        ),
        (
            {"traces_endpoint": URL, "flush_seconds": "nan"},
            "otel.flush_seconds: must be above 0 and at most 4 seconds, not nan",
        ),
        (
            {"traces_endpoint": URL, "flush_seconds": "5"},
            "otel.flush_seconds: must be above 0 and at most 4 seconds, not 5",
        ),
    ],
)
def test_wrong_option_is_one_clear_error(options: dict[str, str], message: str) -> None:
    """A wrong value or option is named, with what would be right."""
    with pytest.raises(ConfigError) as caught:
        read(**options)

    assert str(caught.value).startswith(message)
