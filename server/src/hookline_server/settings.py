"""Settings of the server: addresses, limits and keys."""

import re
from dataclasses import dataclass
from enum import StrEnum

from hookline.config.options import check_options, option, section
from hookline.config.readers import read_size
from hookline.exceptions import ConfigError
from hookline.request_limits import LOGPROBS
from hookline_processes.addresses import LARGEST_PORT, read_host
from hookline_server.addresses import check_root_path, read_hosts, read_mode
from hookline_server.answers.settings import ResponseSettings
from hookline_server.auth.key_file import KeyFile, key_file
from hookline_server.connections.limits import ConnectionLimits
from hookline_server.cors import CorsSettings
from hookline_server.logs.config_file import LOG, LogSettings
from hookline_server.logs.options import LogFormat, LogLevel
from hookline_server.replies.settings import ReplySettings
from hookline_server.response_store_settings import ResponseStoreSettings
from hookline_server.tls.settings import TLS, TlsSettings

MEBIBYTE = 1024 * 1024
KEYS = "API keys"
HEADERS_WITH_SECRETS = (
    *("api-key", "authorization", "cookie", "proxy-authorization", "x-api-key"),
)
MOST_API_SERVERS = 32

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class MaxTokensPolicy(StrEnum):
    """What becomes of a request for more tokens than the context has room for."""

    CLAMP = "clamp"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Options of `hookline serve` that are not the engine's.

    Attributes:
        other_names: Names of the model besides the first one.
    """

    other_names: tuple[str, ...] = ()
    host: tuple[str, ...] = option(
        "Address to listen on.",
        default=("127.0.0.1",),
        metavar="ADDRESS",
        commas=True,
        read=read_hosts,
    )
    port: int = option(
        "TCP port; 0 selects a free one.", default=8000, minimum=0, maximum=LARGEST_PORT
    )
    uds: str | None = option(
        "Socket file to listen on instead of an address.", default=None, metavar="PATH"
    )
    uds_mode: int = option(
        "Octal permissions of that file.",
        default=0o600,
        metavar="MODE",
        read=read_mode,
        shown_default="600",
    )
    root_path: str = option(
        "Path that a proxy in front puts before all paths, and may remove again.",
        default="",
        metavar="PATH",
    )
    middleware: tuple[str, ...] = option(
        "aiohttp middleware around the API, as module:name.",
        default=(),
        metavar="NAME",
    )
    api_server_count: int = option(
        "Number of processes that serve HTTP on the port; each talks to every engine.",
        default=1,
        metavar="SERVERS",
        minimum=1,
        maximum=MOST_API_SERVERS,
    )
    api_key: str | None = option(
        "Bearer token that requests must carry, except those for /health. Better "
        "set HOOKLINE_API_KEY.",
        default=None,
        repr=False,
        group=KEYS,
    )
    api_keys: KeyFile | None = option(
        "YAML or JSON file of API keys with names, tenants, scopes, permissions "
        "and limits; it is read again when it changes.",
        default=None,
        group=KEYS,
        metavar="FILE",
        read=key_file,
    )
    shutdown_delay: float = option(
        "Time after SIGTERM in which requests are served, though readiness is a 503.",
        default=0.0,
        metavar="SECONDS",
        minimum=0,
    )
    shutdown_timeout: float = option(
        "Time after the delay for running requests to finish before they are aborted.",
        default=30.0,
        metavar="SECONDS",
        minimum=0,
    )
    deep_health_timeout: float = option(
        "Time that GET /health/deep gives the engine for one token.",
        default=10.0,
        metavar="SECONDS",
        above=0,
    )
    max_body_bytes: int = option(
        "Maximum size of a request's body; larger ones are refused with status 413.",
        default=8 * MEBIBYTE,
        metavar="SIZE",
        minimum=1,
        read=read_size,
    )
    max_tokens_policy: MaxTokensPolicy | None = option(
        "What becomes of a request's max_tokens beyond the rest of the context: it is "
        "reduced (clamp), or the request is refused.",
        default=None,
        shown_default="clamp for /v1/messages, else refuse",
    )
    max_connections: int | None = option(
        "Maximum number of open connections; beyond it idle ones are closed.",
        default=None,
        group="connections",
        metavar="CONNECTIONS",
        minimum=1,
        shown_default="as many as the file descriptors allow",
    )
    timeout_keep_alive: float = option(
        "Maximum time between two requests of a connection.",
        default=75.0,
        group="connections",
        metavar="SECONDS",
        above=0,
    )
    header_timeout: float = option(
        "Maximum time for the headers of a request, from its first byte or the "
        "connection's start.",
        default=20.0,
        group="connections",
        metavar="SECONDS",
        above=0,
    )
    body_timeout: float = option(
        "Maximum time between two pieces of a request's body; the whole body may "
        "take ten times as long.",
        default=60.0,
        group="connections",
        metavar="SECONDS",
        above=0,
    )
    write_timeout: float = option(
        "Maximum time in which a client reads nothing of a response.",
        default=60.0,
        group="connections",
        metavar="SECONDS",
        above=0,
    )
    sse_keep_alive_interval: float = option(
        "Maximum silence of a streamed response, headers included; a comment, or a "
        "ping of Anthropic's, is sent then. 0 sends none, and headers with the first "
        "output.",
        default=15.0,
        group="connections",
        metavar="SECONDS",
        minimum=0,
    )
    max_logprobs: int = option(
        "Maximum number of likeliest tokens per position that a request may ask for.",
        default=LOGPROBS.most,
        metavar="TOKENS",
        minimum=0,
        maximum=LOGPROBS.most,
    )
    stream_interval: int = option(
        "Number of tokens that a streamed response sends together, after the first; "
        "more make fewer and larger pieces.",
        default=1,
        group="connections",
        metavar="TOKENS",
        minimum=1,
    )
    request_timeout: float | None = option(
        "Maximum time of a request of the API, from its headers to its last "
        "token; it limits the header X-Request-Timeout, too.",
        default=None,
        group="connections",
        metavar="SECONDS",
        above=0,
        shown_default="no limit",
    )
    enable_reset_prefix_cache: bool = option(
        "Serve POST /reset_prefix_cache.", default=False
    )
    enable_sleep_mode: bool = option(
        "Serve POST /sleep, POST /wake_up and GET /is_sleeping.", default=False
    )
    enable_scaling: bool = option(
        "Serve POST /scale, which changes the number of engines, and GET /scale; "
        "also by vLLM's names, POST /scale_elastic_ep and "
        "POST /is_scaling_elastic_ep.",
        default=False,
    )
    enable_tokenizer_info_endpoint: bool = option(
        "Serve GET /tokenizer_info, which returns the tokenizer's configuration "
        "and the chat template.",
        default=False,
    )
    disable_fastapi_docs: bool = option(
        "Serve neither /openapi.json nor /docs, by vLLM's name.", default=False
    )
    tls: TlsSettings = section(TLS, TlsSettings)
    log: LogSettings = section(LOG, LogSettings)
    cors: CorsSettings = section("browsers (CORS)", CorsSettings)
    responses: ResponseSettings = section("responses", ResponseSettings)
    replies: ReplySettings = section("tools and reasoning", ReplySettings)
    response_store: ResponseStoreSettings = section(
        "stored responses", ResponseStoreSettings
    )
    log_level: LogLevel = option(
        "Minimum level of the server's log lines.", default=LogLevel.INFO
    )
    log_format: LogFormat = option(
        "Format of the server's log lines: text, or one JSON object per line.",
        default=LogFormat.CONSOLE,
    )
    metrics_host: str | None = option(
        "Address of the metrics port.",
        default=None,
        group="pages of the stat loggers",
        metavar="ADDRESS",
        read=read_host,
        shown_default="those of --host",
    )
    metrics_port: int | None = option(
        "Port of /metrics and other pages of the stat loggers; 0 selects a free one.",
        default=None,
        group="pages of the stat loggers",
        metavar="PORT",
        minimum=0,
        maximum=LARGEST_PORT,
        shown_default="that of --port",
    )
    metrics_token: str | None = option(
        "Bearer token that requests for these pages must carry. Better set "
        "HOOKLINE_METRICS_TOKEN.",
        default=None,
        repr=False,
        group="pages of the stat loggers",
    )
    tenant_header: str | None = option(
        "Header that names a request's tenant, such as X-Tenant.",
        default=None,
        group="tenants",
        metavar="NAME",
    )
    tenant_keys: KeyFile | None = option(
        "Former name of --api-keys.",
        default=None,
        group="tenants",
        metavar="FILE",
        read=key_file,
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.api_key == "":
            raise ConfigError("api-key", "must not be empty")
        if self.api_keys is not None and self.tenant_keys is not None:
            raise ConfigError("tenant-keys", "is the former name of --api-keys")
        self._check_pages()
        check_root_path(self.root_path)
        if not self.host or isinstance(self.host, str):
            raise ConfigError("host", "must be a list of addresses")
        check_tenant_header(self.tenant_header)

    def _check_pages(self) -> None:
        if self.metrics_port is None and self.metrics_host is not None:
            raise ConfigError("metrics-host", "requires metrics-port")
        if self.metrics_token == "":
            raise ConfigError("metrics-token", "must not be empty")

    @property
    def shutdown_seconds(self) -> float:
        """Time after a signal for clients to leave, and for requests to finish."""
        return self.shutdown_delay + self.shutdown_timeout

    @property
    def hosts(self) -> tuple[str, ...]:
        """Addresses of the API; empty if it listens on a file."""
        return self.host if self.uds is None else ()

    @property
    def pages_hosts(self) -> tuple[str, ...]:
        """Addresses of the metrics port, if there is one."""
        return self.host if self.metrics_host is None else (self.metrics_host,)

    @property
    def connection_limits(self) -> ConnectionLimits:
        return ConnectionLimits(
            max_connections=self.max_connections,
            keep_alive=self.timeout_keep_alive,
            header=self.header_timeout,
            body=self.body_timeout,
            write=self.write_timeout,
        )


def check_tenant_header(name: str | None) -> None:
    """Raises `ConfigError` for what is no header, or one with secrets."""
    if name is None:
        return
    if not _HEADER_NAME.fullmatch(name):
        raise ConfigError("tenant-header", f"{name!r} is not the name of a header")
    if name.lower() in HEADERS_WITH_SECRETS:
        raise ConfigError("tenant-header", f"{name} holds secrets")
