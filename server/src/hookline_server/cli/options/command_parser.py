"""The base of the parsers of commands, which can be asked for without parsing."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

_ASKED = "--describe-parser"


class ParserFoundError(Exception):
    """Carries the parser of a command whose parser was asked for."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__(parser.prog)
        self.parser = parser


class CommandParser(argparse.ArgumentParser):
    """A parser of a command, which `parser_of` finds."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parses arguments, unless this parser is asked for."""
        # Parsers without help only look at some options before the command's own does.
        if args is not None and _ASKED in args and self.add_help:
            raise ParserFoundError(self)
        return super().parse_known_args(args, namespace)


def parser_of(run: Callable[[list[str]], object]) -> argparse.ArgumentParser:
    """Returns the parser with which a command reads its arguments.

    Args:
        run: Runs the command; it ends as soon as it would parse.

    Raises:
        LookupError: It parses nothing with a `CommandParser`.
    """
    try:
        run([_ASKED])
    except ParserFoundError as found:
        return found.parser
    raise LookupError(f"{run} has no CommandParser")
