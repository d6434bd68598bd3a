"""`hookline route`: a proxy in front of prefill and decode instances."""

from hookline_server.cli.command import Command

COMMAND = Command(
    summary="route requests to prefill and decode instances",
    module="hookline_pd_proxy.command",
    completes=True,
)
