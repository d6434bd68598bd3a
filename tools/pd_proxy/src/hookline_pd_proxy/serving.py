"""The life of a proxy: serve until it is stopped, drain, end."""

import asyncio
from collections.abc import Callable

from hookline_pd_proxy.app import PROXY, create_route
from hookline_pd_proxy.settings import RouteSettings
from hookline_server.listening import Bound
from hookline_server.sites import sites


async def serve_route(
    listening: Bound,
    settings: RouteSettings,
    stopping: asyncio.Event,
    when_ready: Callable[[], None],
) -> None:
    """Serves until `stopping` is set; then open requests have limited time to end."""
    app = create_route(settings)
    async with sites([(app, listening)]):
        when_ready()
        await stopping.wait()
        app[PROXY].open.is_leaving = True
        await asyncio.sleep(settings.shutdown_delay)
        await app[PROXY].open.drain(settings.shutdown_timeout)
