"""Fields of a request that only some API keys may set."""

from aiohttp import web

from hookline_server.api_error import ApiError
from hookline_server.auth.key import PriorityRange
from hookline_server.auth.request_key import key_of
from hookline_server.protocol.generation import GenerationRequest


def check_permissions(request: web.Request, body: GenerationRequest) -> None:
    """Raises `ApiError` 403 for a field that the request's key must not set.

    Without a key everything is allowed: the server is open.
    """
    key = key_of(request)
    if key is None:
        return
    allowed = key.permissions
    if body.priority and not allowed.may_set_priority(body.priority):
        raise _denied("priority", _range(allowed.priority))
    if body.cache_salt is not None and not allowed.cache_salt:
        raise _denied("cache_salt")
    if body.kv_transfer_params is not None and not allowed.kv_transfer_params:
        raise _denied("kv_transfer_params")


def _denied(field: str, limits: str = "") -> ApiError:
    message = f"this API key may not set {field}{limits}"
    return ApiError(403, message, code="permission_denied", param=field)


def _range(allowed: PriorityRange | None) -> str:
    if allowed is None:
        return ""
    return f", except to 0 or to {allowed.lowest} to {allowed.highest}"
