"""The options of `hookline route`."""

from hookline_pd_proxy.demo import SHARED_STORAGE
from hookline_pd_proxy.settings import RouteSettings
from hookline_server.cli.options.derived import derived
from hookline_server.cli.options.option import Kind, Option

DEMO = "demo"

ROUTE_OPTIONS = (
    *derived(RouteSettings, "route"),
    Option(
        flag="demo",
        target="demo.is_wanted",
        group=DEMO,
        kind=Kind.FLAG,
        help="Also start a prefill and a decode instance on this machine, on the two "
        "ports after the proxy's; other options are passed to `hookline serve`.",
    ),
    Option(
        flag="connector",
        target="demo.connector",
        group=DEMO,
        metavar="NAME",
        help="KV connector between the two instances.",
        default=SHARED_STORAGE,
    ),
)
