"""`POST /reset_prefix_cache`, served where it is enabled."""

import msgspec
from aiohttp import web

from hookline.engine.commands import ResetPrefixCache
from hookline_server.handlers.admission import ready_engine
from hookline_server.handlers.common import json_response
from hookline_server.openapi.operation import (
    ADMINISTRATION_ERRORS,
    Operation,
    Tag,
    described,
)


class Reset(msgspec.Struct, frozen=True):
    """Answer to a reset.

    Attributes:
        status: `reset`.
        success: Whether every engine has dropped its cached prefixes.
    """

    status: str
    success: bool


@described(
    Operation(tag=Tag.ADMINISTRATION, answer=Reset, errors=ADMINISTRATION_ERRORS)
)
async def reset_prefix_cache(request: web.Request) -> web.Response:
    """Drops all cached prefixes that no running request holds."""
    replies = await ready_engine(request).call(ResetPrefixCache())
    return json_response(Reset("reset", success=all(replies)))
