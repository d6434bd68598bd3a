"""The commands `hookline why` and `hookline stalled`; importing them is cheap."""

from hookline_server.cli.command import Command

WHY = Command(
    "tell where the time of a request went",
    "hookline_insight.why_command",
    completes=True,
)
STALLED = Command(
    "tell what an engine that hangs, or works, is doing",
    "hookline_insight.stalled_command",
    completes=True,
)
TRACE = Command(
    "draw recordings for Perfetto", "hookline_insight.trace_command", completes=True
)
