"""`hookline bench`: what an engine or a server does, in the field's own words."""

from hookline_server.cli.commands import Command

COMMAND = Command(
    summary="measure an engine or a server", module="hookline_bench.command"
)
