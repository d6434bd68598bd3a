"""`hookline plugins`: lists what is installed, or hands over to what else it does."""

import dataclasses
import json

from hookline.plugins.kinds import KINDS
from hookline_registry import PluginRow, list_plugins
from hookline_registry.listing import OK
from hookline_server.cli.command import find_command
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.option import JSON
from hookline_server.cli.options.parser import make_parser, parse
from hookline_server.cli.output import say, table

HEADINGS = ("name", "kind", "distribution", "version", "state")
NEW = "new-plugin"
"""The command that `hookline plugins new` runs."""


def run(argv: list[str]) -> int:
    """Runs `list`, `doctor` or `new`; without any of them, `list`."""
    match argv:
        case ["doctor", *rest]:
            from hookline_server.cli.commands.plugins_doctor import (  # noqa: PLC0415
                examine,
            )

            return examine(rest)
        case ["new", *rest]:
            if (command := find_command(NEW)) is None:
                raise UsageError(
                    "plugins new: the templates belong to hookline-testing, which is "
                    "not installed (pip install hookline-testing)"
                )
            return command.run(rest)
        case ["list", *rest] | rest:
            return _list(rest)


def _list(argv: list[str]) -> int:
    """Prints what distributions declare; imports no plugin."""
    description = (
        "Lists the installed plugins. `hookline plugins doctor` imports and checks "
        "them, `hookline plugins new NAME --kind KIND` writes one."
    )
    given = parse(make_parser("plugins", description, [JSON]), argv)
    rows = list_plugins("hookline", KINDS)
    if "run.json" in given:
        say(json.dumps([_fields(row) for row in rows], indent=2))
        return 0
    say(table([HEADINGS, *map(_cells, rows)]))
    for row in rows:
        if row.state != OK:
            say(f"\n{row.kind} {row.name}: {' '.join(row.state.split())}")
    return 0


def _fields(row: PluginRow) -> dict[str, object]:
    fields = dataclasses.asdict(row)
    del fields["hooks"]  # they are not known before it is imported
    return fields


def _cells(row: PluginRow) -> tuple[str, ...]:
    # Why a plugin cannot be used would widen the column of all.
    state = OK if row.state == OK else "broken"
    return row.name, row.kind, row.distribution, row.version, state
