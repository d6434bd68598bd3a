"""Who a request is accounted to: told by its API key, or by a header."""

import re

from aiohttp import web

from hookline_server.context import SETTINGS

MAX_TENANT_LENGTH = 64

KEYS_TENANT: web.RequestKey[str] = web.RequestKey("hookline_keys_tenant", str)
"""The tenant whose API key the request brought."""

_NOT_IN_TENANT = re.compile(r"[^A-Za-z0-9._:\-]")


def tenant_of(request: web.Request) -> str | None:
    """The tenant; the key knows it better than the header, which anybody can write."""
    if KEYS_TENANT in request:
        return request[KEYS_TENANT]
    header = request.app[SETTINGS].tenant_header
    return None if header is None else cleaned(request.headers.get(header, ""))


def cleaned(name: str) -> str | None:
    """The name without the characters that it may not have; None if none is left.

    What it may have is what a request id may have.
    """
    return _NOT_IN_TENANT.sub("", name)[:MAX_TENANT_LENGTH] or None


def is_tenant(name: str) -> bool:
    """Whether the name is one that a tenant may have."""
    return cleaned(name) == name
