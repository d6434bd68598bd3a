"""`hookline plugins`."""

import dataclasses
import json
from collections.abc import Sequence

from hookline import hookspecs
from hookline_registry import PluginKind, PluginRow, list_plugins
from hookline_server.cli.output import say
from hookline_server.cli.parser import make_parser, parse
from hookline_server.cli.version import JSON

KINDS = (
    PluginKind(name="logger", group="hookline.loggers"),
    PluginKind(name="proposer", group="hookline.proposers"),
    PluginKind(name="connector", group="hookline.connectors"),
    PluginKind(name="engine", group="hookline.engines", has_hooks=False),
    PluginKind(name="model", group="hookline.models", has_hooks=False),
)

HEADINGS = ("name", "kind", "distribution", "version", "state", "hooks")


def run(argv: list[str]) -> int:
    """Imports every installed plugin and tells how it fares."""
    parser = make_parser("plugins", "Lists the installed plugins.", [JSON])
    given = parse(parser, argv)
    rows = list_plugins("hookline", hookspecs, KINDS)
    if "run.json" in given:
        say(json.dumps([dataclasses.asdict(row) for row in rows], indent=2))
    else:
        say(_table([HEADINGS, *(_cells(row) for row in rows)]))
    return 0


def _cells(row: PluginRow) -> tuple[str, ...]:
    hooks = ", ".join(row.hooks) or "-"
    return row.name, row.kind, row.distribution, row.version, row.state, hooks


def _table(rows: Sequence[Sequence[str]]) -> str:
    # The last two columns hold whole sentences, so the last is not padded.
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    )
