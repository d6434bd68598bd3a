"""Finds the subcommand, and turns every expected error into one line."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from hookline.exceptions import (
    ConfigError,
    EngineDeadError,
    ModelLoadError,
    RequestError,
)
from hookline_registry import RegistryError
from hookline_server.cli.output import complain, say
from hookline_server.cli.parser import UsageError
from hookline_server.listening import ListenError
from hookline_server.route.instance_ended import InstanceEndedError

COMMANDS: Mapping[str, str] = {
    "serve": "start the server with the OpenAI API",
    "generate": "complete prompts without a server",
    "route": "send prompts to prefill and answers to decode instances",
    "train-draft": "train what guesses tokens for a model",
    "bench": "measure an engine or a server",
    "metrics": "tell about the metrics, and compare sets of them",
    "plugins": "list the installed plugins, or tell what is wrong with them",
    "version": "tell what is installed",
}

WRONG_INPUT = 2
FAILURE = 1
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    if argv is None:
        # For `--stat-logger module:Class`; behind everything that is installed.
        sys.path.append(str(Path.cwd()))
        argv = sys.argv[1:]
    try:
        return _dispatch(list(argv))
    except (UsageError, ConfigError, RequestError, RegistryError) as error:
        return _failed(error, WRONG_INPUT)
    except (
        ListenError,
        ModelLoadError,
        EngineDeadError,
        InstanceEndedError,
    ) as error:
        return _failed(error, FAILURE)
    except KeyboardInterrupt:
        return INTERRUPTED


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        say(_help())
        return 0
    name, *rest = arguments
    if name == "--version":
        say(f"hookline {version('hookline')}")
        return 0
    if name not in COMMANDS:
        raise UsageError(f"unknown command {name!r}; there is {', '.join(COMMANDS)}")
    # Only the command that runs is imported: `hookline version` needs no server.
    module = import_module(f"hookline_server.cli.{name.replace('-', '_')}")
    run: Callable[[list[str]], int] = module.run
    return run(rest)


def _failed(error: Exception, status: int) -> int:
    line = " ".join(str(error).split())
    complain(f"hookline: error: {line}")
    return status


def _help() -> str:
    commands = "\n".join(f"  {name:<12}{text}" for name, text in COMMANDS.items())
    return (
        "usage: hookline COMMAND [OPTIONS]\n\n"
        "An LLM inference engine that you can see into.\n\n"
        f"commands:\n{commands}\n\n"
        "`hookline COMMAND --help` tells the options of a command."
    )
