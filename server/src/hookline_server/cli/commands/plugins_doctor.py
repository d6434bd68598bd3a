"""`hookline plugins doctor`: problems of the plugins and of their lanes."""

from typing import cast

from hookline import hookspecs
from hookline.plugins.kinds import KINDS
from hookline_processes.addresses import AddressError, read_url
from hookline_registry import PluginRow, list_plugins
from hookline_registry.listing import OK
from hookline_server.cli.errors import UsageError
from hookline_server.cli.metrics_tools.lanes import LaneReport, lane_reports
from hookline_server.cli.metrics_tools.page import read_page
from hookline_server.cli.metrics_tools.web_page import TOKEN, fetch
from hookline_server.cli.options.option import Option
from hookline_server.cli.options.parser import make_parser, parse
from hookline_server.cli.output import say, table

PAGE = "/metrics"

URL = Option(
    flag="url",
    target="run.url",
    group="running server",
    help="Server whose loggers' lanes are checked as well, such as "
    "http://127.0.0.1:8000; the metrics port if it has one.",
)

PLUGIN_HEADINGS = ("kind", "name", "distribution", "hooks", "verdict")
LANE_HEADINGS = ("lane", "depth", "delivered", "dropped", "errors", "busy s", "verdict")


def examine(argv: list[str]) -> int:
    """Prints the state of plugins and lanes; returns 1 if there is a problem."""
    description = "Checks the installed plugins, and the loggers of a running server."
    given = parse(make_parser("plugins doctor", description, [URL, TOKEN]), argv)
    rows = list_plugins("hookline", KINDS, hookspecs)
    lanes = _lanes(
        cast("str | None", given.get("run.url")),
        token=cast("str | None", given.get("run.token")),
    )
    say(table([PLUGIN_HEADINGS, *map(_plugin_cells, rows)]))
    if lanes:
        say("")
        say(table([LANE_HEADINGS, *(_lane_cells(each) for each in lanes)]))
    is_wrong = any(row.state != OK for row in rows)
    return int(is_wrong or any(lane.problems for lane in lanes))


def _lanes(url: str | None, *, token: str | None) -> list[LaneReport]:
    if url is None:
        return []
    try:
        read_url(url)
    except AddressError as error:
        raise UsageError(f"--url: {error}") from error
    page = url.rstrip("/").removesuffix(PAGE) + PAGE
    return lane_reports(read_page(fetch(page, token=token), page))


def _plugin_cells(row: PluginRow) -> tuple[str, ...]:
    source = f"{row.distribution} {row.version}".rstrip()
    hooks = ", ".join(row.hooks) or "-"
    return row.kind, row.name, source, hooks, " ".join(row.state.split())


def _lane_cells(lane: LaneReport) -> tuple[str, ...]:
    numbers = (lane.depth, lane.delivered, lane.dropped, lane.errors, lane.busy_seconds)
    verdict = "; ".join(lane.problems) or OK
    return lane.logger, *(f"{number:g}" for number in numbers), verdict
