"""`/load`."""

import msgspec
from aiohttp import web

from hookline_server.context import OPEN_STREAMS
from hookline_server.handlers.common import json_response
from hookline_server.openapi.operation import Operation, Tag, described


class Load(msgspec.Struct, frozen=True):
    """The load, under vLLM's name.

    Attributes:
        server_load: Prompts that are being served or wait for it.
    """

    server_load: int


@described(Operation(tag=Tag.SERVER, answer=Load))
async def show_load(request: web.Request) -> web.Response:
    """Returns the load of the server."""
    return json_response(Load(request.app[OPEN_STREAMS].count))
