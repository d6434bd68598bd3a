"""`/version`."""

from importlib.metadata import version

import msgspec
from aiohttp import web

from hookline_server.handlers.common import json_response


class Version(msgspec.Struct, frozen=True):
    """The installed version."""

    version: str


async def show_version(_: web.Request) -> web.Response:
    """Returns the installed version of Hookline."""
    return json_response(Version(version("hookline")))
