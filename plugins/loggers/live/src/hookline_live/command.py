"""The command `hookline top`; importing it is cheap."""

from hookline_server.cli.command import Command

COMMAND = Command(
    "show in a terminal what the engines of a server do at this moment",
    "hookline_live.top",
    completes=True,
)
