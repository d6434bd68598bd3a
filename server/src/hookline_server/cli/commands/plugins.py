"""`hookline plugins`; hands over to `hookline plugins doctor`."""

import dataclasses
import json

from hookline import hookspecs
from hookline.plugins.kinds import KINDS
from hookline_registry import PluginRow, list_plugins
from hookline_server.cli.commands.plugins_doctor import examine
from hookline_server.cli.options.option import JSON
from hookline_server.cli.options.parser import make_parser, parse
from hookline_server.cli.output import say, table
from hookline_server.cli.plugin_tools.check import OK

HEADINGS = ("name", "kind", "distribution", "version", "state", "hooks")


def run(argv: list[str]) -> int:
    """Imports every installed plugin and prints its state."""
    if argv[:1] == ["doctor"]:
        return examine(argv[1:])
    parser = make_parser("plugins", "Lists the installed plugins.", [JSON])
    given = parse(parser, argv)
    rows = list_plugins("hookline", hookspecs, KINDS)
    if "run.json" in given:
        say(json.dumps([dataclasses.asdict(row) for row in rows], indent=2))
    else:
        say(table([HEADINGS, *(_cells(row) for row in rows)]))
        for row in rows:
            if row.state != OK:
                say(f"\n{row.kind} {row.name}: {' '.join(row.state.split())}")
    return 0


def _cells(row: PluginRow) -> tuple[str, ...]:
    hooks = ", ".join(row.hooks) or "-"
    # Why a plugin is broken would widen the column of all.
    state = OK if row.state == OK else "broken"
    return row.name, row.kind, row.distribution, row.version, state, hooks
