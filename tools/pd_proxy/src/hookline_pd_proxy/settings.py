"""The settings of `hookline route`."""

from dataclasses import dataclass

from hookline.config.options import check_options, option, section
from hookline.config.readers import read_size
from hookline.exceptions import ConfigError
from hookline_gateway.upstreams.urls import check_urls
from hookline_processes.addresses import LARGEST_PORT, read_host
from hookline_server.cors import AllowedPages
from hookline_server.logs.options import LogFormat, LogLevel
from hookline_server.settings import MEBIBYTE
from hookline_server.tls.settings import TLS, TlsSettings

ROUTE = "route"
TRACES_OPTION = "otlp-traces-endpoint"
INSTANCES = "instances"
FILE_OPTION = "instances-file"


def urls(text: str) -> list[str]:
    """Reads URLs between commas."""
    return [part.strip().rstrip("/") for part in text.split(",") if part.strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSettings:
    """Options of `hookline route`."""

    host: str = option(
        "Address to listen on.",
        default="127.0.0.1",
        group=ROUTE,
        metavar="ADDRESS",
        read=read_host,
    )
    port: int = option(
        "TCP port; 0 selects a free one.",
        default=8000,
        group=ROUTE,
        minimum=0,
        maximum=LARGEST_PORT,
    )
    prefill: list[str] = option(
        "URLs of prefill instances.",
        default_factory=list,
        group=INSTANCES,
        metavar="URLS",
        shown_default="none",
        read=urls,
        commas=True,
    )
    decode: list[str] = option(
        "URLs of decode instances; at least one is required.",
        default_factory=list,
        group=INSTANCES,
        metavar="URLS",
        read=urls,
        commas=True,
    )
    instances_file: str | None = option(
        "JSON file with the lists prefill and decode of URLs, in place of these two "
        "options; it is read again when it changes.",
        default=None,
        group=INSTANCES,
        metavar="FILE",
    )
    instance_key: str | None = option(
        "API key of the instances with which the proxy reads their metrics and may "
        "set kv_transfer_params for clients. Better set HOOKLINE_INSTANCE_KEY.",
        default=None,
        repr=False,
        group=INSTANCES,
    )
    connect_timeout: float = option(
        "Maximum time to connect to an instance.",
        default=2.0,
        group=INSTANCES,
        metavar="SECONDS",
        above=0,
    )
    prefill_timeout: float = option(
        "Maximum time of a prefill, all attempts together; after it, the decode "
        "instance computes the prompt.",
        default=60.0,
        group=INSTANCES,
        metavar="SECONDS",
        above=0,
    )
    request_timeout: float = option(
        "Maximum time of a request, all attempts together.",
        default=600.0,
        group=INSTANCES,
        metavar="SECONDS",
        above=0,
    )
    retries: int = option(
        "Number of other instances to try if one fails, per phase.",
        default=2,
        group=INSTANCES,
        metavar="COUNT",
        minimum=0,
    )
    poll_seconds: float = option(
        "Time between two polls of an instance's health and metrics.",
        default=1.0,
        group=INSTANCES,
        metavar="SECONDS",
        above=0,
    )
    prefill_min_characters: int = option(
        "Minimum length of prompts that are sent to a prefill instance; a token "
        "id counts as 4 characters.",
        default=0,
        group=INSTANCES,
        metavar="COUNT",
        minimum=0,
    )
    max_body_bytes: int = option(
        "Maximum size of a request's body; larger ones are refused with status 413.",
        default=8 * MEBIBYTE,
        group=ROUTE,
        metavar="SIZE",
        minimum=1,
        read=read_size,
    )
    shutdown_delay: float = option(
        "Time after SIGTERM in which requests are served, though readiness is a 503.",
        default=0.0,
        group=ROUTE,
        metavar="SECONDS",
        minimum=0,
    )
    shutdown_timeout: float = option(
        "Time after the delay for running requests to finish before they are cut off.",
        default=30.0,
        group=ROUTE,
        metavar="SECONDS",
        minimum=0,
    )
    otlp_traces_endpoint: str | None = option(
        "URL to send the proxy's spans to, such as http://localhost:4317. Requires "
        "hookline-otel.",
        default=None,
        group=ROUTE,
        metavar="URL",
    )
    trace_ratio: float = option(
        "Fraction of the requests without trace context that are traced.",
        default=1.0,
        group=ROUTE,
        metavar="FRACTION",
        minimum=0,
        maximum=1,
    )
    pages: AllowedPages = section("browsers", AllowedPages)
    tls: TlsSettings = section(TLS, TlsSettings)
    log_level: LogLevel = option(
        "Minimum level of the proxy's log lines.", default=LogLevel.INFO, group=ROUTE
    )
    log_format: LogFormat = option(
        "Format of the proxy's log lines: text, or one JSON object per line.",
        default=LogFormat.CONSOLE,
        group=ROUTE,
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.instance_key == "":
            raise ConfigError("instance-key", "must not be empty")
        if self.instances_file is not None:
            if self.prefill or self.decode:
                raise ConfigError(FILE_OPTION, "excludes --prefill and --decode")
            return
        check_instances(self.prefill, self.decode)


def check_instances(prefill: list[str], decode: list[str]) -> None:
    """Raises `ConfigError` unless these are the URLs of instances."""
    if not decode:
        raise ConfigError("decode", "must name at least one instance")
    check_urls("prefill", prefill)
    check_urls("decode", decode)
