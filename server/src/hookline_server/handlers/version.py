"""`/version`."""

import msgspec
from aiohttp import web

from hookline import __version__
from hookline_server.handlers.common import json_response
from hookline_server.openapi.operation import Operation, Tag, described


class Version(msgspec.Struct, frozen=True):
    """The installed version."""

    version: str


@described(Operation(tag=Tag.SERVER, answer=Version))
async def show_version(_: web.Request) -> web.Response:
    """Returns the installed version of Hookline."""
    return json_response(Version(__version__))
