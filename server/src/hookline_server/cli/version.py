"""`hookline version`."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version

from hookline_server.cli.output import say
from hookline_server.cli.parser import Kind, Option, make_parser, parse

DISTRIBUTIONS = ("hookline", "torch", "transformers")

JSON = Option(
    flag="json",
    target="run.json",
    group="output",
    kind=Kind.FLAG,
    help="print JSON, for machines",
)


def run(argv: list[str]) -> int:
    """Tells the versions that matter in a bug report."""
    given = parse(make_parser("version", "Tells what is installed.", [JSON]), argv)
    found = {name: _version(name) for name in DISTRIBUTIONS}
    found["python"] = platform.python_version()
    if "run.json" in given:
        say(json.dumps(found))
    else:
        for name, value in found.items():
            say(f"{name:<13}{value or 'not installed'}")
    return 0


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
