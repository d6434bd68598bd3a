"""The commands `hookline why` and `hookline stalled`; importing them is cheap."""

from hookline_server.cli.command import Command

WHY = Command("tell where the time of a request went", "hookline_insight.why_command")
STALLED = Command(
    "tell what an engine that hangs, or works, is doing",
    "hookline_insight.stalled_command",
)
TRACE = Command("draw recordings for Perfetto", "hookline_insight.trace_command")
