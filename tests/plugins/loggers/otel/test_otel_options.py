"""The otel plugin's options as users type them."""

import pytest

import hookline_otel
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline.payloads import LoggerContext
from hookline_otel.endpoint import Endpoint, OtlpProtocol, Signal
from hookline_otel.logger import OtelLogger
from hookline_otel.options import HELP, Options, Semconv
from hookline_otel.transport_settings import Compression, TransportSettings
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


def otlp(variables: dict[str, str]) -> dict[str, str]:
    """An environment of variables about exports."""
    return {f"OTEL_EXPORTER_OTLP_{name}": text for name, text in variables.items()}


def settings(environment: dict[str, str]) -> TransportSettings:
    endpoint = Endpoint("https://collector", GRPC)
    return TransportSettings.read(Signal.TRACES, endpoint, None, environment)
