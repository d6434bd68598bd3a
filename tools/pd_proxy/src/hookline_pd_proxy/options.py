"""The options of `hookline route`."""

from hookline_pd_proxy.settings import RouteSettings
from hookline_server.cli.parser import Kind, Option
from hookline_server.cli.values import number, size, whole
from hookline_server.settings import LOG_LEVELS, MEBIBYTE

ROUTE = "route"
INSTANCES = "instances"
DEMO = "demo"

_DEFAULTS = RouteSettings(decode=["http://127.0.0.1"])


def urls(text: str) -> list[str]:
    """URLs with commas between them."""
    return [part.strip().rstrip("/") for part in text.split(",") if part.strip()]


ROUTE_OPTIONS = (
    Option(
        flag="host",
        target="route.host",
        group=ROUTE,
        metavar="ADDRESS",
        help="address to listen on",
        default=_DEFAULTS.host,
    ),
    Option(
        flag="port",
        target="route.port",
        group=ROUTE,
        parse=whole,
        help="TCP port; 0 takes a free one",
        default=str(_DEFAULTS.port),
    ),
    Option(
        flag="prefill",
        target="route.prefill",
        group=INSTANCES,
        kind=Kind.WORDS,
        parse=urls,
        metavar="URLS",
        help="instances that compute prompts; by commas, or repeated (default: none)",
    ),
    Option(
        flag="decode",
        target="route.decode",
        group=INSTANCES,
        kind=Kind.WORDS,
        parse=urls,
        metavar="URLS",
        help="instances that compute the answers; by commas, or repeated",
    ),
    Option(
        flag="connect-timeout",
        target="route.connect_timeout",
        group=INSTANCES,
        parse=number,
        metavar="SECONDS",
        help="for a connection to an instance",
        default=f"{_DEFAULTS.connect_timeout:g}",
    ),
    Option(
        flag="prefill-timeout",
        target="route.prefill_timeout",
        group=INSTANCES,
        parse=number,
        metavar="SECONDS",
        help="for a prefill, all attempts together; then a decode instance does it",
        default=f"{_DEFAULTS.prefill_timeout:g}",
    ),
    Option(
        flag="request-timeout",
        target="route.request_timeout",
        group=INSTANCES,
        parse=number,
        metavar="SECONDS",
        help="for a whole request, all attempts together",
        default=f"{_DEFAULTS.request_timeout:g}",
    ),
    Option(
        flag="retries",
        target="route.retries",
        group=INSTANCES,
        parse=whole,
        metavar="COUNT",
        help="other instances that are tried where one fails, in either phase",
        default=str(_DEFAULTS.retries),
    ),
    Option(
        flag="poll-seconds",
        target="route.poll_seconds",
        group=INSTANCES,
        parse=number,
        metavar="SECONDS",
        help="time between two looks at an instance's health and metrics",
        default=f"{_DEFAULTS.poll_seconds:g}",
    ),
    Option(
        flag="prefill-min-characters",
        target="route.prefill_min_characters",
        group=INSTANCES,
        parse=whole,
        metavar="COUNT",
        help="shorter prompts go to a decode instance at once; a token id counts as 4",
        default=str(_DEFAULTS.prefill_min_characters),
    ),
    Option(
        flag="max-body-bytes",
        target="route.max_body_bytes",
        group=ROUTE,
        parse=size,
        metavar="SIZE",
        help="larger request bodies are refused",
        default=f"{_DEFAULTS.max_body_bytes // MEBIBYTE}MiB",
    ),
    Option(
        flag="shutdown-timeout",
        target="route.shutdown_timeout",
        group=ROUTE,
        parse=number,
        metavar="SECONDS",
        help="what running requests get after SIGTERM before they are cut off",
        default=f"{_DEFAULTS.shutdown_timeout:g}",
    ),
    Option(
        flag="log-level",
        target="route.log_level",
        group=ROUTE,
        choices=LOG_LEVELS,
        help="of the route's log",
        default=_DEFAULTS.log_level,
    ),
    Option(
        flag="demo",
        target="demo.is_wanted",
        group=DEMO,
        kind=Kind.FLAG,
        help="start a prefill and a decode instance on this machine too, on the two "
        "ports after the route's; other options go to `hookline serve`",
    ),
    Option(
        flag="connector",
        target="demo.connector",
        group=DEMO,
        metavar="NAME",
        help="the KV connector between them (default: shared_storage)",
    ),
)
