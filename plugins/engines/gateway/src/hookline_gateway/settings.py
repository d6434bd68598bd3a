"""The settings of `hookline gateway`."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hookline.config.options import check_options, option, section
from hookline.config.readers import read_size
from hookline.exceptions import ConfigError
from hookline_gateway.upstreams.urls import check_urls
from hookline_processes.addresses import LARGEST_PORT, read_host
from hookline_server.cors import AllowedPages
from hookline_server.logs.options import LogFormat, LogLevel
from hookline_server.settings import MEBIBYTE, check_tenant_header
from hookline_server.tls.settings import TLS, TlsSettings

GATEWAY = "gateway"
UPSTREAMS = "upstreams"


class Balance(StrEnum):
    """Which of several upstreams gets a request."""

    LEAST = "least"
    ROUND_ROBIN = "round_robin"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Options of `hookline gateway` that are not those of loggers."""

    host: str = option(
        "Address to listen on.",
        default="127.0.0.1",
        group=GATEWAY,
        metavar="ADDRESS",
        read=read_host,
    )
    port: int = option(
        "TCP port; 0 selects a free one.",
        default=8000,
        group=GATEWAY,
        minimum=0,
        maximum=LARGEST_PORT,
    )
    upstream: list[str] = option(
        "URL of a server; it may stand without the flag.",
        default_factory=list,
        group=UPSTREAMS,
        metavar="URL",
    )
    instance_key: str | None = option(
        "API key with which the gateway reads the upstreams' metrics and models. "
        "Better set HOOKLINE_INSTANCE_KEY.",
        default=None,
        repr=False,
        group=UPSTREAMS,
    )
    balance: Balance = option(
        "Which upstream gets a request: that with the fewest open requests, or each "
        "in turn.",
        default=Balance.LEAST,
        group=UPSTREAMS,
    )
    connect_timeout: float = option(
        "Maximum time to connect to an upstream.",
        default=2.0,
        group=UPSTREAMS,
        metavar="SECONDS",
        above=0,
    )
    idle_timeout: float = option(
        "Maximum time in which nothing comes of an answer, before its first byte or "
        "later.",
        default=600.0,
        group=UPSTREAMS,
        metavar="SECONDS",
        above=0,
    )
    retries: int = option(
        "Number of other upstreams to try if one fails before its first byte.",
        default=2,
        group=UPSTREAMS,
        metavar="COUNT",
        minimum=0,
    )
    poll_seconds: float = option(
        "Time between two polls of an upstream's health and metrics; its models are "
        "polled ten times less often.",
        default=1.0,
        group=UPSTREAMS,
        metavar="SECONDS",
        above=0,
    )
    max_body_bytes: int = option(
        "Maximum size of a request's body; larger ones are refused with status 413.",
        default=64 * MEBIBYTE,
        group=GATEWAY,
        metavar="SIZE",
        minimum=1,
        read=read_size,
    )
    tokenizer: Path | None = option(
        "Folder of a tokenizer that counts the tokens of answers without usage.",
        default=None,
        group=GATEWAY,
        metavar="FOLDER",
    )
    tenant_header: str | None = option(
        "Header that names a request's tenant, such as X-Tenant.",
        default=None,
        group="tenants",
        metavar="NAME",
    )
    shutdown_delay: float = option(
        "Time after SIGTERM in which requests are served, though readiness is a 503.",
        default=0.0,
        group=GATEWAY,
        metavar="SECONDS",
        minimum=0,
    )
    shutdown_timeout: float = option(
        "Time after the delay for running requests to finish before they are cut off.",
        default=30.0,
        group=GATEWAY,
        metavar="SECONDS",
        minimum=0,
    )
    pages: AllowedPages = section("browsers", AllowedPages)
    tls: TlsSettings = section(TLS, TlsSettings)
    log_level: LogLevel = option(
        "Minimum level of the gateway's log lines.",
        default=LogLevel.INFO,
        group=GATEWAY,
    )
    log_format: LogFormat = option(
        "Format of the gateway's log lines: text, or one JSON object per line.",
        default=LogFormat.CONSOLE,
        group=GATEWAY,
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.instance_key == "":
            raise ConfigError("instance-key", "must not be empty")
        if not self.upstream:
            raise ConfigError("upstream", "must name at least one server")
        check_urls("upstream", self.upstream)
        check_tenant_header(self.tenant_header)
