"""`hookline gateway`: Hookline's metrics in front of any server with an OpenAI API."""

from hookline_server.cli.command import Command

COMMAND = Command(
    summary="forward requests to any servers, and measure them",
    module="hookline_gateway.command",
    engine="remote",
    completes=True,
)
