"""`hookline metrics`: lists, describes and compares metrics."""

import dataclasses
import json
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import cast

from hookline_metrics import DIALECTS, Feature
from hookline_metrics.engine_tells import EngineTells, declared_by, engine_names
from hookline_registry.spelling import did_you_mean, unknown
from hookline_server.cli.errors import UsageError
from hookline_server.cli.metrics_tools.catalogue import (
    AbsentName,
    Feeding,
    MetricRow,
    absent,
    feedings,
    named,
    others,
    rows,
)
from hookline_server.cli.metrics_tools.diff import MetricDiff, compare, only
from hookline_server.cli.metrics_tools.shapes import shapes_of
from hookline_server.cli.metrics_tools.web_page import TOKEN
from hookline_server.cli.options.option import JSON, Kind, Option
from hookline_server.cli.options.parser import make_parser, parse
from hookline_server.cli.output import say, table

HELP = """\
usage: hookline metrics list [--dialect D] [--engine E] [--json]
       hookline metrics describe NAME
       hookline metrics diff A B [--dialect D] [--token T]

A and B are each `installed`, a file that `list --json` wrote, or a page of metrics (a
file or a URL). The exit status of `diff` is 1 if B lacks or changes anything of A."""

HEADINGS = ("name", "dialect", "kind", "stability", "labels", "state")
Fed = Mapping[tuple[str, str], Feeding]
"""By dialect and name, if an engine is named."""
WIDTH = 88
LABELS_WIDTH = 48
"""Width of the labels in the list; `describe` shows all of them."""

DIALECT = Option(
    flag="dialect",
    target="run.dialects",
    group="names",
    kind=Kind.LIST,
    choices=DIALECTS,
    help="Only names of this dialect. Can be repeated.",
)


ENGINE = Option(
    flag="engine",
    target="run.engine",
    group="names",
    metavar="NAME",
    help="Say of each name whether engines of this kind feed it, and else why not.",
)


def run(argv: list[str]) -> int:
    """Runs one of the subcommands."""
    if not argv or argv[0] in ("-h", "--help"):
        say(HELP)
        return 0
    name, *rest = argv
    if name not in SUBCOMMANDS:
        raise UsageError(unknown("command", name, SUBCOMMANDS, of="metrics"))
    return SUBCOMMANDS[name](rest)


def _list(argv: list[str]) -> int:
    options = [DIALECT, ENGINE, JSON]
    given = parse(make_parser("metrics list", "Lists the metrics.", options), argv)
    dialects = _dialects(given)
    found = rows(dialects)
    engine = cast("str | None", given.get("run.engine"))
    fed = {} if engine is None else feedings(_tells_of(engine), dialects)
    if "run.json" in given:
        say(json.dumps([_plain(row, fed) for row in found], indent=2))
    else:
        missing = (_absent_cells(each) for each in absent(dialects))
        say(table([HEADINGS, *(_cells(row, fed) for row in found), *missing]))
    return 0


def _tells_of(engine: str) -> EngineTells:
    """Returns what a plugin declares; raises `UsageError` if there is none."""
    if engine not in (known := engine_names()):
        raise UsageError(unknown("engine", engine, known))
    return declared_by(engine)


def _plain(row: MetricRow, fed: Fed) -> Mapping[str, object]:
    """Returns a row as plain data; with an engine also whether that feeds it."""
    found = dataclasses.asdict(row)
    if (of_engine := fed.get((row.dialect, row.name))) is not None:
        found["engine"] = dataclasses.asdict(of_engine)
    return found


def _describe(argv: list[str]) -> int:
    description = "Describes a metric."
    parser = make_parser("metrics describe", description, [], operands=["NAME"])
    name = str(parse(parser, argv)["NAME"])
    found = named(name)
    if why := [each.reason for each in absent() if each.name == name]:
        say(f"{name}\n  not applicable: {why[0]}")
        return 0
    if not found:
        hint = did_you_mean(name, [row.name for row in rows()])
        raise UsageError(f"unknown metric {name!r}{hint}")
    say("\n\n".join("\n".join(_description(row)) for row in found))
    return 0


def _diff(argv: list[str]) -> int:
    description = "Compares two sets of metrics."
    options = [DIALECT, TOKEN]
    parser = make_parser("metrics diff", description, options, operands=["A", "B"])
    given = parse(parser, argv)
    token = cast("str | None", given.get("run.token"))
    first, second = (shapes_of(str(given[name]), token=token) for name in ("A", "B"))
    if "run.dialects" in given:
        dialects = _dialects(given)
        first, second = only(first, dialects), only(second, dialects)
    diff = compare(first, second)
    say("\n".join(_lines(diff)) or "no difference")
    return int(diff.breaks)


SUBCOMMANDS: Mapping[str, Callable[[list[str]], int]] = {
    "list": _list,
    "describe": _describe,
    "diff": _diff,
}


def _dialects(given: Mapping[str, object]) -> tuple[str, ...]:
    chosen = cast("list[str]", given.get("run.dialects", DIALECTS))
    return tuple(dict.fromkeys(chosen))


def _cells(row: MetricRow, fed: Fed) -> tuple[str, ...]:
    named = ", ".join(row.labels) or "-"
    labels = textwrap.shorten(named, LABELS_WIDTH, placeholder=" ...")
    return row.name, row.dialect, row.kind, row.stability, labels, _state(row, fed)


def _state(row: MetricRow, fed: Fed) -> str:
    of_engine = fed.get((row.dialect, row.name))
    if of_engine is not None and of_engine.absent is not None:
        return f"absent: {of_engine.absent}"
    if row.zero is not None:
        return f"zero by nature: {row.zero}"
    state = "fed" if row.feature is None else f"fed with {_needed(row.feature)}"
    if of_engine is None or of_engine.condition is None:
        return state
    return f"{state} if {of_engine.condition}"


def _needed(feature: str) -> str:
    return f"--{feature}{Feature(feature).note}"


def _absent_cells(absent_name: AbsentName) -> tuple[str, ...]:
    state = f"not applicable: {absent_name.reason}"
    return absent_name.name, absent_name.dialect, "-", "-", "-", state


def _description(row: MetricRow) -> Iterable[str]:
    yield row.name
    yield from textwrap.wrap(
        row.help, WIDTH, initial_indent="  ", subsequent_indent="  "
    )
    for name, value in _facts(row):
        yield f"  {name:<10}{value}"


def _facts(row: MetricRow) -> Iterable[tuple[str, str]]:
    yield "kind", f"{row.kind}, unit {row.unit}"
    yield "dialect", row.dialect
    yield "labels", ", ".join(row.labels) or "none"
    if row.bucket_family is not None:
        bounds = " ".join(f"{bound:g}" for bound in row.buckets or ())
        shown = bounds or "1 2 5 10 … up to the model's context length"
        yield "buckets", f"{shown} ({row.bucket_family})"
    yield "stability", f"{row.stability}, since {row.since}"
    if row.hidden_since is not None:
        yield "hidden", f"since {row.hidden_since}"
    if row.replaced_by is not None:
        yield "use", f"{row.replaced_by} instead"
    if row.feature is not None:
        yield "needs", _needed(row.feature)
    if row.zero is not None:
        yield "zero", row.zero
    if row.deviation is not None:
        yield "deviates", row.deviation
    if also := ", ".join(other.name for other in others(row)):
        yield "also", also


def _lines(diff: MetricDiff) -> Iterable[str]:
    yield from (f"removed  {name}" for name in diff.removed)
    yield from (f"changed  {name}: {what}" for name, what in diff.changed)
    yield from (f"added    {name}" for name in diff.added)
