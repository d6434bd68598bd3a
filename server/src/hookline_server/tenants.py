"""The tenant of a request, by its API key or by a header."""

from aiohttp import web

from hookline_server.auth.key_ring import KEY_RING
from hookline_server.auth.request_key import key_of
from hookline_server.context import SETTINGS
from hookline_server.tenant_names import cleaned


def client_of(request: web.Request) -> str:
    """Returns whom to serve in turn with others: the tenant, else the address."""
    return tenant_of(request) or request.remote or ""


def tenant_of(request: web.Request) -> str | None:
    """Returns the tenant of the API key, else of the header, which is not trusted."""
    key = key_of(request)
    if key is not None and key.tenant is not None:
        return key.tenant
    header = request.app[SETTINGS].tenant_header
    return None if header is None else cleaned(request.headers.get(header, ""))


def weight_of(request: web.Request) -> float:
    """Returns the share of the request's tenant, relative to other tenants."""
    key = key_of(request)
    return 1.0 if key is None else request.app[KEY_RING].weight(key, tenant_of(request))
