"""The command `hookline models`; importing it is cheap."""

from hookline_server.cli.command import Command

MODELS = Command(
    "list, download or remove models of a hub",
    "hookline_hub.models_command",
    completes=True,
)
