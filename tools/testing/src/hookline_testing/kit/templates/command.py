"""Command `hookline sample`: prints its arguments."""

import sys

from hookline import hookimpl
from hookline_server.cli.command import Command


def run(argv: list[str]) -> int:
    """Runs the command; returns its exit status."""
    sys.stdout.write(f"{' '.join(argv)}\n")
    return 0


@hookimpl
def cli_command() -> Command:
    """Called when the command is run or listed; the module has the function `run`."""
    return Command("print the arguments", __name__)
