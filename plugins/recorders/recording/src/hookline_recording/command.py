"""The command `hookline record`; importing it is cheap."""

from hookline_server.cli.command import Command

COMMAND = Command(
    "save what an engine did last, also of one that hangs or has ended",
    "hookline_recording.record_command",
    completes=True,
)
