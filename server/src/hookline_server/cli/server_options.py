"""The options that make `ServerSettings`."""

from hookline_server.cli.parser import Kind, Option
from hookline_server.cli.values import number, size, whole
from hookline_server.settings import LOG_LEVELS, MEBIBYTE, ServerSettings

SERVER = "server"

_DEFAULTS = ServerSettings()

SERVER_OPTIONS = (
    Option(
        flag="host",
        target="server.host",
        group=SERVER,
        metavar="ADDRESS",
        help="address to listen on",
        default=_DEFAULTS.host,
    ),
    Option(
        flag="port",
        target="server.port",
        group=SERVER,
        parse=whole,
        help="TCP port; 0 takes a free one",
        default=str(_DEFAULTS.port),
    ),
    Option(
        flag="api-key",
        target="server.api_key",
        group=SERVER,
        help="ask for this bearer token on /v1/* (default: none)",
    ),
    Option(
        flag="shutdown-timeout",
        target="server.shutdown_timeout",
        group=SERVER,
        parse=number,
        metavar="SECONDS",
        help="what running requests get after SIGTERM before they are aborted",
        default=f"{_DEFAULTS.shutdown_timeout:g}",
    ),
    Option(
        flag="max-body-bytes",
        target="server.max_body_bytes",
        group=SERVER,
        parse=size,
        metavar="SIZE",
        help="larger request bodies are refused",
        default=f"{_DEFAULTS.max_body_bytes // MEBIBYTE}MiB",
    ),
    Option(
        flag="enable-reset-prefix-cache",
        target="server.enable_reset_prefix_cache",
        group=SERVER,
        kind=Kind.FLAG,
        help="serve POST /reset_prefix_cache",
    ),
    Option(
        flag="log-level",
        target="server.log_level",
        group=SERVER,
        choices=LOG_LEVELS,
        help="of the server's log",
        default=_DEFAULTS.log_level,
    ),
)
