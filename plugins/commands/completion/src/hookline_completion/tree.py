"""All commands with their options as one parser, which nothing is parsed with."""

import argparse
from collections.abc import Callable, Mapping

import shtab

from hookline.plugins.kinds import (
    ENGINE,
    ENGINE_NODES,
    EXECUTOR,
    LOGGER,
    LOGITS_PROCESSOR,
    REASONING_PARSER,
    TOOL_PARSER,
)
from hookline_registry import PluginKind, RegistryError, installed
from hookline_server.cli.command import command_names, find_command
from hookline_server.cli.options.command_parser import parser_of
from hookline_server.cli.output import complain

Run = Callable[[list[str]], object]

PLUGINS: Mapping[str, PluginKind] = {
    "--data-parallel-backend": ENGINE_NODES,
    "--engine": ENGINE,
    "--executor": EXECUTOR,
    "--logits-processor": LOGITS_PROCESSOR,
    "--reasoning-parser": REASONING_PARSER,
    "--stat-logger": LOGGER,
    "--tool-call-parser": TOOL_PARSER,
}
"""Kinds of the plugins that options name."""


def command_tree() -> argparse.ArgumentParser:
    """Returns a parser with a subparser for each command that can be used."""
    root = argparse.ArgumentParser(
        prog="hookline", description="An LLM inference engine that you can see into."
    )
    actions = root.add_subparsers(metavar="COMMAND")
    for name in command_names():
        try:
            command = find_command(name)
        except RegistryError as error:
            complain(f"hookline: warning: {name} is left out: {error}")
            continue
        if command is not None and command.completes:
            _add(actions, name, command.summary, command.run, command.subcommands)
        elif command is not None:
            actions.add_parser(name, help=command.summary)
    return root


def _add(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    summary: str,
    run: Run,
    subcommands: Mapping[str, str],
) -> None:
    if subcommands:
        inner = actions.add_parser(name, help=summary).add_subparsers()
        for each, text in subcommands.items():
            _add(inner, each, text, _after(run, each), {})
        return
    found = parser_of(run)
    for action in found._actions:  # noqa: SLF001 - argparse has no other way
        _complete(action)
    actions.add_parser(
        name,
        help=summary,
        description=found.description,
        parents=[found],
        add_help=False,
    )


def _after(run: Run, name: str) -> Run:
    return lambda argv: run([name, *argv])


def _complete(action: argparse.Action) -> None:
    """Says what an option's value is: a plugin, a file or a folder."""
    for flag in action.option_strings:
        if (kind := PLUGINS.get(flag)) is not None:
            action.choices = sorted({each.name for each in installed(kind.group)})
    if action.metavar == "FILE":
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    elif action.metavar == "FOLDER":
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
