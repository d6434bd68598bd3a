"""Lets requests in: who has a key and room in its limits, and for how long.

What is refused here or later becomes a response, and is counted once.
"""

from contextlib import AsyncExitStack

from aiohttp import hdrs, web

from hookline_server.api_error import ApiError, as_api_error, body_too_large
from hookline_server.auth.bearer import sent_key
from hookline_server.auth.key import ApiKey, Scope
from hookline_server.auth.key_ring import KEY_RING
from hookline_server.auth.payer import client_of, payer_of, peer
from hookline_server.auth.route_scopes import ROUTE_SCOPES
from hookline_server.browser_guard import BROWSER_GUARD, SITE
from hookline_server.context import ALLOWANCE_OF, ENGINE
from hookline_server.deadlines import HEADER as TIMEOUT_HEADER
from hookline_server.deadlines import Deadlines
from hookline_server.dialects import COUNTED_PATHS
from hookline_server.errors import ANSWERED, Answered, Handler, answer
from hookline_server.request_identity import (
    IDENTITY,
    RequestIdentity,
    request_facts,
    stranger_facts,
)
from hookline_server.tenant_names import cleaned


class Entrance:
    """The middleware around all handlers of an application.

    It passes on requests that have a key of the right scope, or need none. Unknown
    paths and wrong methods need a key, too, so that nobody can probe them.
    """

    def __init__(self, deadlines: Deadlines | None = None) -> None:
        """Lets nobody in yet; without deadlines, nothing limits the time."""
        self._deadlines = deadlines

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        """Authenticates a request before it is read, and answers with its errors."""
        identity = request[IDENTITY]
        try:
            authenticate(request, identity)
            identity.is_rejectable = request.path in COUNTED_PATHS
            deadlines = self._deadlines
            is_timed = deadlines is not None and (
                deadlines.longest is not None or TIMEOUT_HEADER in request.headers
            )
            if is_timed or identity.allowance is not None:
                return await _limited(request, handler, deadlines)
            return await handler(request)
        except ANSWERED as error:
            if identity.is_rejectable:
                _report_rejected(request, identity, error)
            return answer(request, error)


def authenticate(request: web.Request, identity: RequestIdentity) -> None:
    """Finds out who asks, and what the request draws on.

    Raises:
        ApiError: 401; it needs a key and has none that is valid. 403; the key does not
            open its path, or it needs none and a page of another site may have sent it.
    """
    ring = request.app[KEY_RING]
    scope = None
    try:
        if ring.is_open:
            guard, headers = request.app[BROWSER_GUARD], request.headers
            is_page = hdrs.ORIGIN in headers or SITE in headers
            if is_page or headers.get(hdrs.HOST) not in guard.usual:
                guard.check(request)
        else:
            scope = request.app[ROUTE_SCOPES].of(request)
            if scope is not None and ring.guards(scope):
                identity.key = _key(request, scope)
            elif scope is not None:  # and no probe, which is for all
                request.app[BROWSER_GUARD].check(request)
    except ApiError as error:
        _report_stranger(request, error)
        raise
    key = identity.key
    if key is not None and key.tenant is not None:
        identity.tenant = key.tenant
    elif ring.tenant_header is not None:
        identity.tenant = cleaned(request.headers.get(ring.tenant_header, ""))
    if key is None:
        identity.payer = peer(request.remote or "")
        identity.client = identity.payer, identity.tenant or ""
        return
    certain = key.certain_tenant(identity.tenant)
    identity.payer = payer_of(key, None)
    identity.client = client_of(identity.payer, identity.tenant, certain)
    identity.weight = ring.weight(key, certain)
    is_limited = scope is Scope.SERVE and ring.budgets.are_any
    if is_limited and ring.budgets.of(key, certain):
        identity.allowance = request.app[ALLOWANCE_OF](key, certain)


async def show_limits(request: web.Request, response: web.StreamResponse) -> None:
    """Adds the headers of rate limits; for an application's `on_response_prepare`."""
    allowance = request[IDENTITY].allowance
    if allowance is not None:
        response.headers.update(allowance.headers())


async def _limited(
    request: web.Request, handler: Handler, deadlines: Deadlines | None
) -> web.StreamResponse:
    """Answers within the limits of rates and time.

    Raises:
        ApiError: 429; a limit has no room for the request. 400; the time in its header
            is none. 504; it was not finished in time.
    """
    identity = request[IDENTITY]
    async with AsyncExitStack() as limits:
        if identity.allowance is not None:
            await limits.enter_async_context(identity.allowance.used())
        if deadlines is None:
            return await handler(request)
        # The header of the time is not among what counts as rejected.
        is_counted, identity.is_rejectable = identity.is_rejectable, False
        seconds = deadlines.seconds(request)
        identity.is_rejectable = is_counted
        if seconds is None:
            return await handler(request)
        try:
            async with deadlines.limited(seconds) as deadline:
                identity.deadline = deadline
                return await handler(request)
        except TimeoutError:
            identity.is_rejectable = False  # it is late, and was not refused
            raise deadline.error from None


def _key(request: web.Request, scope: Scope) -> ApiKey:
    key = request.app[KEY_RING].find(sent_key(request))
    if key is None:
        raise ApiError(
            401,
            "a valid API key is required: send it as `Authorization: Bearer …`, "
            "`x-api-key: …` or `api-key: …`",
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


def _report_rejected(
    request: web.Request, identity: RequestIdentity, error: Answered
) -> None:
    """Reports a request that the engine has not got to the observers.

    It counts once, even if it has several prompts.
    """
    engine = request.app.get(ENGINE)
    if engine is None:  # the model is loading
        return
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        cause = body_too_large(request.client_max_size).rejection
    else:
        cause = as_api_error(error).rejection
    facts = identity.facts or request_facts(request)
    identity.enter_span(engine.reject(facts, cause))
