"""The tenant of a request, by its API key or by a header."""

from aiohttp import web

from hookline_server.context import SETTINGS
from hookline_server.tenant_names import cleaned

KEYS_TENANT: web.RequestKey[str] = web.RequestKey("hookline_keys_tenant", str)
"""The tenant of the request's API key."""


def client_of(request: web.Request) -> str:
    """Returns whom to serve in turn with others: the tenant, else the address."""
    return tenant_of(request) or request.remote or ""


def tenant_of(request: web.Request) -> str | None:
    """Returns the tenant of the API key, else of the header, which is not trusted."""
    if KEYS_TENANT in request:
        return request[KEYS_TENANT]
    header = request.app[SETTINGS].tenant_header
    return None if header is None else cleaned(request.headers.get(header, ""))
