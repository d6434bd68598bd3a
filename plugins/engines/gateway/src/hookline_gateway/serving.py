"""The life of a gateway: serve until it is stopped, drain, end."""

import asyncio
from collections.abc import Callable

from hookline.config import EngineConfig
from hookline_gateway.app import GATEWAY, create_gateway
from hookline_gateway.settings import GatewaySettings
from hookline_server.connections.limits import ConnectionLimits, connections_allowed
from hookline_server.listening import Bound
from hookline_server.sites import sites


async def serve_gateway(
    listening: Bound,
    settings: GatewaySettings,
    config: EngineConfig,
    stopping: asyncio.Event,
    when_ready: Callable[[], None],
) -> None:
    """Serves until `stopping` is set; then open requests have limited time to end."""
    app = create_gateway(settings, config)
    # Each client's request has a connection to an upstream, too.
    limits = ConnectionLimits(max_connections=connections_allowed() // 2)
    async with sites([(app, listening)], limits):
        when_ready()
        await stopping.wait()
        app[GATEWAY].open.is_leaving = True
        await asyncio.sleep(settings.shutdown_delay)
        await app[GATEWAY].open.drain(settings.shutdown_timeout)
