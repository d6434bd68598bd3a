"""The optional API keys of `/v1/*`."""

from aiohttp import web

from hookline_server.api_error import ApiError
from hookline_server.bearer import bearer_token
from hookline_server.context import API_KEYS
from hookline_server.errors import Handler
from hookline_server.tenants import KEYS_TENANT


@web.middleware
async def check_api_key(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Lets nobody into `/v1/*` without a key, where there are keys."""
    keys = request.app[API_KEYS]
    if keys.are_asked_for and _is_guarded(request):
        holder = keys.find(bearer_token(request))
        if holder is None:
            raise ApiError(
                401,
                "a valid API key is needed: send it as `Authorization: Bearer …`",
                code="invalid_api_key",
            )
        if holder.tenant is not None:
            request[KEYS_TENANT] = holder.tenant
    return await handler(request)


def _is_guarded(request: web.Request) -> bool:
    # The route that will run decides, not the path's spelling.
    resource = request.match_info.route.resource
    return resource is not None and resource.canonical.startswith("/v1/")
