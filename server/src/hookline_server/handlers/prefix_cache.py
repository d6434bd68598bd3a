"""`/reset_prefix_cache`; exists only where it was enabled."""

import msgspec
from aiohttp import web

from hookline_server.handlers.common import json_response, ready_engine


class Reset(msgspec.Struct, frozen=True):
    """The engine was told."""

    status: str


async def reset_prefix_cache(request: web.Request) -> web.Response:
    """Forgets all cached prefixes that no running request holds."""
    ready_engine(request).reset_prefix_cache()
    return json_response(Reset("reset"))
