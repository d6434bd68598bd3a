"""The scope of each route, by its path."""

from aiohttp import web

from hookline_server.auth.key import Scope

LIVENESS = frozenset(
    {
        "/health",
        "/health/live",
        "/health/ready",
        "/live",
        "/livez",
        "/ping",
        "/ready",
        "/readyz",
    }
)
"""Paths that never need a key, for probes."""

ADMINISTRATION = (
    *("/reset_prefix_cache", "/sleep", "/wake_up", "/is_sleeping"),
    *("/scale", "/scale_elastic_ep", "/is_scaling_elastic_ep"),
    *("/v1/load_lora_adapter", "/v1/unload_lora_adapter"),
    *("/load_lora_adapter", "/unload_lora_adapter", "/v1/adapters/{adapter}/pin"),
    *("/debug/recording", "/stalled", "/why", "/why/{id}"),
)


class RouteScopes:
    """Scopes of an application's routes.

    Routes are looked up by what the router has matched, because a path can be spelt in
    several ways.
    """

    def __init__(self, default: Scope) -> None:
        """Gives routes that were not added a scope, and unknown paths, too."""
        self._default = default
        self._scopes: dict[str, Scope | None] = {}
        self._scopes |= dict.fromkeys(ADMINISTRATION, Scope.ADMIN)

    def add(self, path: str, scope: Scope | None) -> None:
        """Sets the scope of a route's path, as it was registered, if it was not set.

        With None, nobody needs a key.
        """
        self._scopes.setdefault(path, scope)

    def of(self, request: web.Request) -> Scope | None:
        """Returns the scope of a request, or None if it needs no key."""
        resource = request.match_info.route.resource
        if resource is None:
            return self._default
        return self.of_path(resource.canonical)

    def of_path(self, path: str) -> Scope | None:
        """Returns the scope of a route's path, or None if it needs no key."""
        return None if path in LIVENESS else self._scopes.get(path, self._default)


ROUTE_SCOPES: web.AppKey[RouteScopes] = web.AppKey("hookline_scopes", RouteScopes)
