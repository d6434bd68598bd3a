"""The one error that ends a demo."""

from hookline_server.cli.errors import CommandFailedError


class InstanceEndedError(CommandFailedError):
    """An instance ended by itself; the message names it and the reason."""
