"""The options that make `ServerSettings`."""

from hookline_server.cli.observer_settings import DEFAULT_MAX_TENANTS
from hookline_server.cli.observer_values import tenant
from hookline_server.cli.parser import Kind, Option
from hookline_server.cli.tenant_keys import tenant_keys
from hookline_server.cli.values import number, size, whole
from hookline_server.settings import LOG_LEVELS, MEBIBYTE, ServerSettings

SERVER = "server"
PAGES = "pages of the stat loggers"
TENANTS = "tenants"

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
        flag="metrics-host",
        target="server.metrics_host",
        group=PAGES,
        metavar="ADDRESS",
        help="address of the metrics port (default: that of --host)",
    ),
    Option(
        flag="metrics-port",
        target="server.metrics_port",
        group=PAGES,
        parse=whole,
        metavar="PORT",
        help="serve /metrics and the like on this port rather than on the API's; "
        "0 takes a free one",
    ),
    Option(
        flag="metrics-token",
        target="server.metrics_token",
        group=PAGES,
        help="ask for this bearer token on /metrics and the like (default: none)",
    ),
    Option(
        flag="tenant-header",
        target="server.tenant_header",
        group=TENANTS,
        metavar="NAME",
        help="the header that tells a request's tenant, such as X-Tenant",
    ),
    Option(
        flag="tenant-keys",
        target="server.tenant_keys",
        group=TENANTS,
        parse=tenant_keys,
        metavar="FILE",
        help="a YAML or JSON file with the tenant of each API key",
    ),
    Option(
        flag="tenant",
        target="config.observers.metrics.tenants",
        group=TENANTS,
        kind=Kind.LIST,
        parse=tenant,
        metavar="NAME",
        help="a tenant that metrics may name; may be repeated (default: the first that "
        "come, --max-tenants of them)",
    ),
    Option(
        flag="max-tenants",
        target="config.observers.metrics.max_tenants",
        group=TENANTS,
        parse=whole,
        metavar="COUNT",
        help="most tenants that metrics name; 0 names none (default: those of "
        f"--tenant, else {DEFAULT_MAX_TENANTS}; 0 where nothing tells a tenant)",
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
