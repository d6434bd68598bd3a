"""The command `completion`; what it needs is imported when it runs."""

from hookline_server.cli.command import Command

COMPLETION = Command(
    "print a script that completes in a shell, or a man page",
    "hookline_completion.completion",
    completes=True,
)
