"""The command `hookline replay`; importing it is cheap."""

from hookline_server.cli.command import Command

REPLAY = Command(
    "run the scheduler again from a recording, and compare each decision",
    "hookline_replay.replay_command",
    completes=True,
)
