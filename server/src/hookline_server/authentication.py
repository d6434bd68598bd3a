"""Authentication of `/v1/*` by optional API keys."""

from aiohttp import web

from hookline_server.api_error import ApiError
from hookline_server.bearer import bearer_token
from hookline_server.context import API_KEYS
from hookline_server.errors import Handler
from hookline_server.tenants import KEYS_TENANT


@web.middleware
async def check_api_key(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuses requests to `/v1/*` without a valid key, if keys are configured."""
    keys = request.app[API_KEYS]
    if keys.are_required and _is_guarded(request):
        owner = keys.find(bearer_token(request))
        if owner is None:
            raise ApiError(
                401,
                "a valid API key is required: send it as `Authorization: Bearer …`",
                code="invalid_api_key",
            )
        if owner.tenant is not None:
            request[KEYS_TENANT] = owner.tenant
    return await handler(request)


def _is_guarded(request: web.Request) -> bool:
    # Checks the matched route, because a path can be spelt in several ways.
    resource = request.match_info.route.resource
    return resource is not None and resource.canonical.startswith("/v1/")
