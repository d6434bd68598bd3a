"""Fields of a request that only some API keys may set."""

from aiohttp import web

from hookline_server.api_error import ApiError
from hookline_server.auth.key import ApiKey, PriorityRange
from hookline_server.auth.key_ring import KEY_RING
from hookline_server.protocol.engine_request import EngineRequest
from hookline_server.request_identity import IDENTITY

ROUTER_KEY = "X-Hookline-Router-Key"
"""Header in which a proxy sends its own key beside the client's."""


def check_permissions(request: web.Request, key: ApiKey, body: EngineRequest) -> None:
    """Raises `ApiError` 403 for a field that the request's key must not set."""
    allowed = key.permissions
    if body.priority and not allowed.may_set_priority(body.priority):
        raise _denied("priority", _range(allowed.priority))
    if body.cache_salt is not None and not allowed.cache_salt:
        raise _denied("cache_salt")
    if body.kv_transfer_params is not None:
        check_transfer_permission(request)


def check_transfer_permission(request: web.Request) -> None:
    """Raises `ApiError` 403 if neither the client nor its proxy may set transfers."""
    key = request[IDENTITY].key
    may = key is None or key.permissions.kv_transfer_params
    if not may and not _is_routed(request):
        raise _denied("kv_transfer_params")


def _is_routed(request: web.Request) -> bool:
    """Whether a proxy that may set `kv_transfer_params` has set them."""
    sent = request.headers.get(ROUTER_KEY, "")
    router = request.app[KEY_RING].find(sent) if sent else None
    return router is not None and router.permissions.kv_transfer_params


def _denied(field: str, limits: str = "") -> ApiError:
    message = f"this API key may not set {field}{limits}"
    return ApiError(403, message, code="permission_denied", param=field)


def _range(allowed: PriorityRange | None) -> str:
    if allowed is None:
        return ""
    return f", except to 0 or to {allowed.lowest} to {allowed.highest}"
