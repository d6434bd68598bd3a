"""Helpers shared by the handlers."""

import msgspec
from aiohttp import web

from hookline_server.engine import ServingEngine
from hookline_server.protocol.wire import encode

MAX_SHOWN = 256
"""Maximum length of a client's text in an error."""


def json_response(message: msgspec.Struct) -> web.Response:
    """A successful response."""
    return web.Response(body=encode(message), content_type="application/json")


def unready_reason(engine: ServingEngine) -> str | None:
    """Returns why no requests are accepted, or None if they are."""
    if engine.failure is not None:
        return f"the engine has failed: {engine.failure}"
    return None if engine.is_ready else "the server is shutting down"
