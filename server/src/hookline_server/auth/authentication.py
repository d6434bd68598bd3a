"""Refuses requests without a valid key, before their bodies are read."""

from aiohttp import web

from hookline_server.api_error import ApiError
from hookline_server.auth.bearer import bearer_token
from hookline_server.auth.key import ApiKey, Scope
from hookline_server.auth.key_ring import KeyRing
from hookline_server.auth.route_scopes import ROUTE_SCOPES
from hookline_server.errors import Handler

KEY_RING: web.AppKey[KeyRing] = web.AppKey("hookline_key_ring", KeyRing)
API_KEY: web.RequestKey[ApiKey] = web.RequestKey("hookline_api_key", ApiKey)
"""The request's key; absent if it needs none."""


@web.middleware
async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Passes on requests that have a key of the right scope, or need none.

    Unknown paths and wrong methods need a key, too, so that nobody can try them out.
    """
    scope = request.app[ROUTE_SCOPES].of(request)
    if scope is None or not request.app[KEY_RING].guards(scope):
        return await handler(request)
    request[API_KEY] = _key(request, scope)
    return await handler(request)


def key_of(request: web.Request) -> ApiKey | None:
    """Returns the request's key; None if it needs none."""
    key: ApiKey | None = request.get(API_KEY)
    return key


def _key(request: web.Request, scope: Scope) -> ApiKey:
    key = request.app[KEY_RING].find(bearer_token(request))
    if key is None:
        raise ApiError(
            401,
            "a valid API key is required: send it as `Authorization: Bearer …`",
            code="invalid_api_key",
        )
    if scope not in key.scopes:
        raise ApiError(
            403,
            f"this API key does not have the scope {scope}",
            code="permission_denied",
        )
    return key
