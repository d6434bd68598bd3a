"""Refuses requests without a valid key or room in its limits, before reading them."""

from aiohttp import web

from hookline_server.api_error import ApiError
from hookline_server.auth.allowance import ALLOWANCE, Allowance
from hookline_server.auth.bearer import sent_key
from hookline_server.auth.key import ApiKey, Scope
from hookline_server.auth.key_ring import KEY_RING
from hookline_server.auth.request_key import API_KEY
from hookline_server.auth.route_scopes import ROUTE_SCOPES
from hookline_server.context import ALLOWANCE_OF, ENGINE
from hookline_server.dialects import (
    EMBEDDINGS_PATH,
    MESSAGES_PATH,
    POOLING_PATH,
    RESPONSES_PATH,
)
from hookline_server.errors import Handler
from hookline_server.logs.current_request import enter_span
from hookline_server.request_identity import request_facts, stranger_facts
from hookline_server.tenants import tenant_of

COUNTED_PATHS = (
    "/v1/completions",
    "/v1/chat/completions",
    RESPONSES_PATH,
    MESSAGES_PATH,
    EMBEDDINGS_PATH,
    POOLING_PATH,
    "/invocations",
)
"""Paths whose requests the observers count."""


@web.middleware
async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Passes on requests that have a key of the right scope, or need none.

    Unknown paths and wrong methods need a key, too, so that nobody can probe them.
    """
    ring = request.app[KEY_RING]
    if ring.is_open:
        return await handler(request)
    scope = request.app[ROUTE_SCOPES].of(request)
    if scope is None or not ring.guards(scope):
        return await handler(request)
    try:
        request[API_KEY] = key = _key(request, scope)
    except ApiError as error:
        _report_stranger(request, error)
        raise
    if scope is Scope.SERVE and ring.budgets.are_any:
        tenant = tenant_of(request)
        if ring.budgets.of(key, tenant):
            request[ALLOWANCE] = allowance = request.app[ALLOWANCE_OF](key, tenant)
            return await _limited(request, handler, allowance)
    return await handler(request)


def _key(request: web.Request, scope: Scope) -> ApiKey:
    key = request.app[KEY_RING].find(sent_key(request))
    if key is None:
        raise ApiError(
            401,
            "a valid API key is required: send it as `Authorization: Bearer …` or "
            "`x-api-key: …`",
            code="invalid_api_key",
        )
    if scope not in key.scopes:
        raise ApiError(
            403,
            f"this API key does not have the scope {scope}",
            code="permission_denied",
        )
    return key


def _report_stranger(request: web.Request, error: ApiError) -> None:
    """Reports a refused completion to the observers, if there is an engine."""
    engine = request.app.get(ENGINE)
    if engine is not None and request.path in COUNTED_PATHS:
        engine.reject(stranger_facts(request), error.rejection)


async def _limited(
    request: web.Request, handler: Handler, allowance: Allowance
) -> web.StreamResponse:
    is_begun = False
    try:
        async with allowance.used():
            is_begun = True
            return await handler(request)
    except ApiError as error:
        if not is_begun and request.path in COUNTED_PATHS:
            facts = request_facts(request)
            enter_span(request.app[ENGINE].reject(facts, error.rejection))
        raise
