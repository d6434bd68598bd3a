"""Who a request is accounted to: told by its API key, or by a header."""

from aiohttp import web

from hookline_server.context import SETTINGS
from hookline_server.tenant_names import cleaned

KEYS_TENANT: web.RequestKey[str] = web.RequestKey("hookline_keys_tenant", str)
"""The tenant whose API key the request brought."""


def tenant_of(request: web.Request) -> str | None:
    """The tenant; the key knows it better than the header, which anybody can write."""
    if KEYS_TENANT in request:
        return request[KEYS_TENANT]
    header = request.app[SETTINGS].tenant_header
    return None if header is None else cleaned(request.headers.get(header, ""))
