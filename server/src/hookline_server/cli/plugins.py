"""`hookline plugins`, and the way to `hookline plugins doctor`."""

import dataclasses
import json

from hookline import hookspecs
from hookline_registry import PluginRow, list_plugins
from hookline_server.cli.doctor import examine
from hookline_server.cli.output import say, table
from hookline_server.cli.parser import make_parser, parse
from hookline_server.cli.plugin_kinds import KINDS
from hookline_server.cli.version import JSON

HEADINGS = ("name", "kind", "distribution", "version", "state", "hooks")


def run(argv: list[str]) -> int:
    """Imports every installed plugin and tells how it fares."""
    if argv[:1] == ["doctor"]:
        return examine(argv[1:])
    parser = make_parser("plugins", "Lists the installed plugins.", [JSON])
    given = parse(parser, argv)
    rows = list_plugins("hookline", hookspecs, KINDS)
    if "run.json" in given:
        say(json.dumps([dataclasses.asdict(row) for row in rows], indent=2))
    else:
        say(table([HEADINGS, *(_cells(row) for row in rows)]))
    return 0


def _cells(row: PluginRow) -> tuple[str, ...]:
    hooks = ", ".join(row.hooks) or "-"
    return row.name, row.kind, row.distribution, row.version, row.state, hooks
