"""The one error that ends a demo."""

from hookline_server.cli.errors import CommandFailedError


class InstanceEndedError(CommandFailedError):
    """An instance has ended by itself; the message tells which, and why."""
