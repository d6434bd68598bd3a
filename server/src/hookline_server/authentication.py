"""The optional API key of `/v1/*`."""

import hmac

from aiohttp import web

from hookline_server.api_error import ApiError
from hookline_server.context import SETTINGS
from hookline_server.errors import Handler

_BEARER = "bearer "


@web.middleware
async def check_api_key(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Lets nobody into `/v1/*` without the key, where there is one."""
    key = request.app[SETTINGS].api_key
    if key is not None and _is_guarded(request) and not _has_key(request, key):
        raise ApiError(
            401,
            "a valid API key is needed: send it as `Authorization: Bearer …`",
            code="invalid_api_key",
        )
    return await handler(request)


def _is_guarded(request: web.Request) -> bool:
    # The route that will run decides, not the path's spelling.
    resource = request.match_info.route.resource
    return resource is not None and resource.canonical.startswith("/v1/")


def _has_key(request: web.Request, key: str) -> bool:
    header = request.headers.get("Authorization", "")
    given = header[len(_BEARER) :] if header.lower().startswith(_BEARER) else ""
    return hmac.compare_digest(_as_bytes(given.strip()), _as_bytes(key))


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
