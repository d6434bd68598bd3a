"""`hookline bench`: measures an engine or a server."""

from hookline_server.cli.command import Command

COMMAND = Command(
    summary="measure an engine or a server", module="hookline_bench.command"
)
