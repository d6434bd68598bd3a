"""The one error that ends a demo."""

from hookline_server.cli.commands import CommandFailedError


class InstanceEndedError(CommandFailedError):
    """An instance has ended by itself; the message tells which, and why."""
