"""How the server listens and what it allows; nothing about the engine."""

import re
from dataclasses import dataclass, field

from hookline.exceptions import ConfigError

MEBIBYTE = 1024 * 1024
HEADERS_WITH_SECRETS = ("authorization", "cookie", "proxy-authorization")
LOG_LEVELS = ("debug", "info", "warning", "error")


_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Options of `hookline serve` that are not the engine's.

    Attributes:
        host: Address to listen on.
        port: TCP port; 0 lets the system choose one.
        api_key: Where set, `/v1/*` asks for it as a bearer token.
        metrics_host: Where the loggers' pages are, if they have a port of their own;
            None for the API's address.
        metrics_port: The loggers' pages listen on this port and no longer on the API's.
        metrics_token: Where set, the loggers' pages ask for it as a bearer token.
        tenant_header: Name of the header that tells a request's tenant.
        tenant_keys: Tenants by API key; these open `/v1/*` like `api_key`.
        shutdown_timeout: Seconds that running requests get after SIGTERM.
        max_body_bytes: Larger request bodies are refused with 413.
        enable_reset_prefix_cache: Serve `/reset_prefix_cache`.
        log_level: Of the server's own log lines.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_key: str | None = field(default=None, repr=False)
    metrics_host: str | None = None
    metrics_port: int | None = None
    metrics_token: str | None = field(default=None, repr=False)
    tenant_header: str | None = None
    tenant_keys: dict[str, str] = field(default_factory=dict, repr=False)
    shutdown_timeout: float = 30.0
    max_body_bytes: int = 8 * MEBIBYTE
    enable_reset_prefix_cache: bool = False
    log_level: str = "info"

    def __post_init__(self) -> None:
        _check_port("port", self.port)
        if self.api_key == "":
            raise ConfigError("api-key", "must not be empty")
        self._check_pages()
        self._check_tenants()
        if not 0 <= self.shutdown_timeout < float("inf"):
            raise ConfigError("shutdown-timeout", "must be a number of seconds >= 0")
        if self.max_body_bytes < 1:
            raise ConfigError("max-body-bytes", "must be at least 1")
        if self.log_level not in LOG_LEVELS:
            raise ConfigError("log-level", f"must be one of {', '.join(LOG_LEVELS)}")

    def _check_pages(self) -> None:
        if self.metrics_port is not None:
            _check_port("metrics-port", self.metrics_port)
        elif self.metrics_host is not None:
            raise ConfigError("metrics-host", "needs --metrics-port")
        if self.metrics_token == "":
            raise ConfigError("metrics-token", "must not be empty")

    def _check_tenants(self) -> None:
        name = self.tenant_header
        if name is None:
            return
        if not _HEADER_NAME.fullmatch(name):
            raise ConfigError("tenant-header", f"{name!r} is not the name of a header")
        if name.lower() in HEADERS_WITH_SECRETS:
            raise ConfigError("tenant-header", f"{name} holds secrets, and no tenant")


def _check_port(option: str, port: int) -> None:
    if not 0 <= port <= 65535:
        raise ConfigError(option, f"must be 0 to 65535, not {port}")
