"""Runs the subcommand, and prints every expected error as one line."""

import sys
from collections.abc import Sequence

from hookline import __version__
from hookline.exceptions import (
    ConfigError,
    EngineDeadError,
    ModelLoadError,
    RequestError,
)
from hookline_registry import RegistryError
from hookline_registry.spelling import unknown
from hookline_server.cli.command import command_names, find_command
from hookline_server.cli.engine_commands import with_engine
from hookline_server.cli.errors import CommandFailedError, UsageError
from hookline_server.cli.options.plugins import HELP, without_plugin_options
from hookline_server.cli.output import complain, say
from hookline_server.cli.secrets import revealed
from hookline_server.cli.standard_input import READERS, close_standard_input

WRONG_INPUT = 2
FAILURE = 1


def dispatch(argv: Sequence[str] | None = None, *, left_out: Sequence[str] = ()) -> int:
    """Runs the subcommand and returns the exit status.

    Args:
        argv: The arguments; None for those of this process.
        left_out: Entries of PYTHONPATH that are not used.
    """
    if left_out:
        complain(
            f"hookline: warning: PYTHONPATH: {', '.join(map(repr, left_out))} is left "
            "out: name folders from the root, since nothing is imported by way of the "
            "working directory"
        )
    if argv is None and not READERS.intersection(sys.argv[1:2]):
        close_standard_input()
    try:
        return _dispatch(revealed(sys.argv[1:]) if argv is None else list(argv))
    except (UsageError, ConfigError, RequestError, RegistryError) as error:
        return _failed(error, WRONG_INPUT)
    except (
        ModelLoadError,
        EngineDeadError,
        CommandFailedError,
    ) as error:
        return _failed(error, FAILURE)


def _dispatch(argv: list[str]) -> int:
    arguments = without_plugin_options(argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        say(_help())
        return 0
    name, *rest = arguments
    if name == "--version":
        say(f"hookline {__version__}")
        return 0
    name, rest = with_engine(name, rest)
    if (command := find_command(name)) is None:
        raise _unknown(name)
    return command.run(rest)


def _unknown(name: str) -> UsageError:
    from hookline_server.cli.options.peers import COMMANDS  # noqa: PLC0415 - not before

    if (instead := COMMANDS.get(name)) is not None:
        return UsageError(f"{name} is not a command of Hookline: {instead}")
    return UsageError(unknown("command", name, command_names()))


def _failed(error: Exception, status: int) -> int:
    line = " ".join(str(error).split())
    complain(f"hookline: error: {line}")
    return status


def _help() -> str:
    found = {name: find_command(name) for name in command_names()}
    commands = "\n".join(
        f"  {name:<12}{command.summary}" for name, command in found.items() if command
    )
    return (
        "usage: hookline COMMAND [OPTIONS]\n\n"
        "An LLM inference engine that you can see into.\n\n"
        f"commands:\n{commands}\n\n"
        f"{HELP}\n\n`hookline COMMAND --help` shows the options of a command."
    )
