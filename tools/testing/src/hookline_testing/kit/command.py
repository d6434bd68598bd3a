"""The command `hookline new-plugin`; importing it is cheap."""

from hookline import hookimpl
from hookline_server.cli.command import Command


@hookimpl
def cli_command() -> Command:
    return Command(
        "write the package of a plugin",
        "hookline_testing.kit.new_plugin",
        completes=True,
    )
