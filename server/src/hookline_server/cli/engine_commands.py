"""Engines that are processes of another kind: `serve --engine` runs their command."""

from collections.abc import Sequence

from hookline.plugins.kinds import COMMAND, ENGINE
from hookline_registry import installed
from hookline_server.cli.command import find_command

FLAG = "--engine"


def with_engine(name: str, arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Returns a command and its arguments, for `serve` perhaps another one.

    Such an engine's command takes what stands beside `--engine`.
    """
    engine, rest = _taken_out(arguments)
    if name != "serve" or engine is None:
        return name, list(arguments)
    if engine in {plugin.name for plugin in installed(ENGINE.group)}:
        return name, list(arguments)
    for each in installed(COMMAND.group):
        command = find_command(each.name)
        if command is not None and command.engine == engine:
            return each.name, rest
    return name, list(arguments)


def _taken_out(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Returns the last engine that is named, and the arguments without it."""
    engine, rest, words = None, list[str](), iter(arguments)
    for word in words:
        if word == FLAG:
            engine = next(words, None)
        elif word.startswith(f"{FLAG}="):
            engine = word.partition("=")[2]
        else:
            rest.append(word)
    return engine, rest
