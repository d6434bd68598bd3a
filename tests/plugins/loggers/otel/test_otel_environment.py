"""OpenTelemetry's standard variables: what they set, and what is wrong with them."""

import pytest

import hookline_otel
from hookline.config import EngineConfig
from hookline.payloads import LoggerContext
from hookline_otel.endpoint import Endpoint, OtlpProtocol, Signal
from hookline_otel.logger import OtelLogger
from hookline_otel.options import Options
from hookline_otel.transport_settings import Compression, TransportSettings

URL = "http://collector:4317"
GRPC, HTTP = OtlpProtocol


def context(**options: str) -> LoggerContext:
    """What the plugin is given when it is chosen."""
    return LoggerContext(name="otel", config=EngineConfig(), options=options)


def read(environment: dict[str, str] | None = None, /, **options: str) -> Options:
    """The options under an environment that holds nothing else."""
    return Options.read(context(**options), environment or {})


def otlp(variables: dict[str, str]) -> dict[str, str]:
    """An environment of variables about exports."""
    return {f"OTEL_EXPORTER_OTLP_{name}": text for name, text in variables.items()}


def settings(environment: dict[str, str]) -> TransportSettings:
    endpoint = Endpoint("https://collector", GRPC)
    return TransportSettings.read(Signal.TRACES, endpoint, None, environment)


@pytest.mark.parametrize(
    ("environment", "endpoint"),
    [
        ({"ENDPOINT": "localhost:4317"}, "http://localhost:4317"),
        ({"ENDPOINT": "[::1]:4317"}, "http://[::1]:4317"),
        ({"ENDPOINT": "collector:4317"}, "https://collector:4317"),
        ({"ENDPOINT": "collector:4317", "INSECURE": "True"}, "http://collector:4317"),
        ({"ENDPOINT": "localhost:1", "INSECURE": "false"}, "https://localhost:1"),
        (
            {"ENDPOINT": "localhost:1", "TRACES_INSECURE": "false"},
            "https://localhost:1",
        ),
        ({"ENDPOINT": "collector"}, "https://collector:4317"),
        (
            {"ENDPOINT": "https://collector:1", "INSECURE": "true"},
            "https://collector:1",
        ),
        ({"TRACES_ENDPOINT": "localhost:1", "ENDPOINT": "x"}, "http://localhost:1"),
        ({"ENDPOINT": "http://collector:1/otlp"}, "http://collector:1"),
    ],
)
def test_grpc_takes_a_place_without_a_scheme(
    environment: dict[str, str], endpoint: str
) -> None:
    """By the standard with TLS unless INSECURE; this machine's without, if unset."""
    found = read(otlp(environment)).traces

    assert found == Endpoint(endpoint, GRPC)


def test_an_option_needs_no_scheme_either() -> None:
    """As with other engines."""
    assert read(traces_endpoint="[::1]:4317").traces == Endpoint(
        "http://[::1]:4317", GRPC
    )


@pytest.mark.parametrize(
    ("environment", "endpoint", "warning"),
    [
        (
            {"ENDPOINT": "a b"},
            Endpoint("http://localhost:4317", GRPC),
            "OTEL_EXPORTER_OTLP_ENDPOINT is ignored: must be a URL such as",
        ),
        (
            {"ENDPOINT": "ftp://a", "PROTOCOL": "http/protobuf"},
            Endpoint("http://localhost:4318/v1/traces", HTTP),
            "OTEL_EXPORTER_OTLP_ENDPOINT is ignored: must be a URL such as",
        ),
        (
            {"ENDPOINT": URL, "PROTOCOL": "carrier-pigeon"},
            Endpoint(URL, GRPC),
            "OTEL_EXPORTER_OTLP_PROTOCOL is ignored: unknown protocol 'carrier-pig",
        ),
        (
            {"ENDPOINT": URL, "TRACES_PROTOCOL": "http/json"},
            Endpoint(f"{URL}/v1/traces", HTTP),
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: http/json is not spoken",
        ),
        (
            {"ENDPOINT": "a:1", "INSECURE": "perhaps"},
            Endpoint("https://a:1", GRPC),
            "OTEL_EXPORTER_OTLP_INSECURE is ignored: 'perhaps' is neither true nor",
        ),
    ],
)
def test_a_wrong_variable_is_a_warning(
    environment: dict[str, str],
    endpoint: Endpoint,
    warning: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The standard's default takes its place; a server does not fail because of it."""
    assert read(otlp(environment)).traces == endpoint
    assert warning in caplog.text


@pytest.mark.parametrize(
    ("variables", "is_exported"),
    [
        ({"OTEL_SDK_DISABLED": "TRUE"}, False),
        ({"OTEL_SDK_DISABLED": "false"}, True),
        ({"OTEL_SDK_DISABLED": "1"}, True),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console, otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, False),
        ({"OTEL_TRACES_EXPORTER": "sometimes"}, True),
        ({"OTEL_TRACES_EXPORTER": ""}, True),
    ],
)
def test_traces_can_be_turned_off(variables: dict[str, str], is_exported: bool) -> None:
    """By the standard's variables, without an error."""
    found = read({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": URL, **variables})

    assert (found.traces is not None) is is_exported


def test_a_logger_that_is_turned_off_exports_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is there, and has no senders, whatever the options are."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")

    made = hookline_otel.create_stat_logger(context(traces_endpoint=URL))

    assert isinstance(made, OtelLogger)
    assert (made.spans, made.metrics, made.logs) == (None, None, None)
    made.close()


def test_everything_may_be_turned_off_without_an_endpoint() -> None:
    """Nobody has to name a collector for nothing."""
    none = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}

    found = read(none)

    assert (found.traces, found.metrics) == (None, None)
    assert read(none, traces_endpoint=URL).traces == Endpoint(URL, GRPC)


@pytest.mark.parametrize(
    ("text", "seconds"), [("500", 0.5), ("0", 10.0), ("soon", 10.0), ("", 10.0)]
)
def test_interval_of_metrics_is_in_milliseconds(text: str, seconds: float) -> None:
    """In the variable; the option prevails, in seconds."""
    environment = {"OTEL_METRIC_EXPORT_INTERVAL": text}

    found = read(environment, metrics_endpoint=URL)
    typed = read(environment, metrics_endpoint=URL, metrics_interval="2")

    assert found.metrics_interval_seconds == seconds
    assert typed.metrics_interval_seconds == 2.0


@pytest.mark.parametrize(
    ("variable", "value", "warning"),
    [
        ("COMPRESSION", "tight", "unknown compression 'tight'; known: none, gzip,"),
        ("TRACES_HEADERS", "secret", "must be name=value,name=value"),
        ("HEADERS", "a=%0d%0asecret", "the value of a is not printable ASCII"),
        ("CERTIFICATE", "nowhere.pem", "'nowhere.pem' cannot be read: No such file"),
        ("TRACES_CLIENT_KEY", "nowhere.pem", "'nowhere.pem' cannot be read: No such"),
        ("TIMEOUT", "soon", "must be milliseconds, 1 to 600000, not 'soon'"),
    ],
)
def test_a_wrong_variable_of_a_transport_is_a_warning(
    variable: str, value: str, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its default takes its place, and a secret is not shown."""
    name = f"OTEL_EXPORTER_OTLP_{variable}"

    found = settings({name: value})

    assert found == TransportSettings()
    assert f"{name} is ignored: {warning}" in caplog.text
    assert "secret" not in caplog.text


def test_settings_of_a_transport_come_from_the_environment() -> None:
    """Headers are percent-encoded, times in milliseconds, the signal's own prevail."""
    found = settings(
        {
            "OTEL_EXPORTER_OTLP_HEADERS": "x=shared",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "Authorization=Basic%20YWJj%3D, b=2",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "10000",
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "2500",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "GZIP",
        }
    )

    assert found.headers == {"authorization": "Basic YWJj=", "b": "2"}
    assert found.export_seconds == 2.5
    assert found.compression is Compression.GZIP
