"""The subcommands of `hookline`: those of this package, and installed ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module

from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import COMMAND
from hookline_registry import UnknownPluginError, installed


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand; its module is imported when it runs.

    Attributes:
        summary: One line for the help.
        module: Has `run(argv) -> exit status`.
        subcommands: Its subcommands with a line about each, if it has any; `run` gets
            the name of one first.
        completes: Whether it parses its arguments with a `CommandParser` before it does
            anything else, so that shells can complete its options.
        engine: Value of `--engine` with which `serve` is this command; empty if none.
    """

    summary: str
    module: str
    engine: str = ""
    subcommands: Mapping[str, str] = field(default_factory=dict)
    completes: bool = False

    def run(self, argv: list[str]) -> int:
        """Imports and runs the command; returns the exit status."""
        run: Callable[[list[str]], int] = import_module(self.module).run
        return run(argv)


_OWN = {
    "serve": "start a server with the OpenAI API",
    "generate": "complete prompts without a server",
    "check-model": "say what is known of a model folder, and what is wrong with it",
    "run-batch": "run the requests of a file, in OpenAI's batch format",
    "metrics": "list, describe and compare metrics",
    "doctor": "show the memory, cores and folders that a server gets here",
    "plugins": "list or check the installed plugins",
    "version": "show the installed versions",
}


_SUBCOMMANDS = {
    "metrics": {
        "list": "the metrics, or those of a dialect",
        "describe": "what a metric counts",
        "diff": "what two lists or pages differ in",
    },
    "plugins": {
        "list": "what is installed",
        "doctor": "import and check each",
        "new": "write the package of one",
    },
}


def own_commands() -> dict[str, Command]:
    """Returns the commands of this package by name."""
    package = f"{__name__.rpartition('.')[0]}.commands"
    return {
        name: Command(
            summary,
            f"{package}.{name.replace('-', '_')}",
            subcommands=_SUBCOMMANDS.get(name, {}),
            completes=True,
        )
        for name, summary in _OWN.items()
    }


def command_names() -> list[str]:
    """Returns the names of all commands; imports none of them."""
    return [*_OWN, *sorted({plugin.name for plugin in installed(COMMAND.group)})]


def find_command(name: str) -> Command | None:
    """Returns the command of that name, or None if there is none.

    Raises:
        RegistryError: Two distributions bring it, or it cannot be imported.
    """
    if (own := own_commands().get(name)) is not None:
        return own
    try:
        found = hook_of(COMMAND, name)()
    except UnknownPluginError:
        return None
    assert isinstance(found, Command)
    return found
