"""`hookline version`."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version

from hookline import __version__
from hookline_server.cli.options.option import JSON
from hookline_server.cli.options.parser import make_parser, parse
from hookline_server.cli.output import say

LIBRARIES = ("torch", "transformers")


def run(argv: list[str]) -> int:
    """Prints the versions that a bug report needs."""
    given = parse(make_parser("version", "Shows the installed versions.", [JSON]), argv)
    found: dict[str, str | None] = {"hookline": __version__}
    found |= {name: _version(name) for name in LIBRARIES}
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
