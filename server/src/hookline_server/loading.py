"""The application that answers while the model loads: alive, but not ready."""

from aiohttp import web

from hookline_server.api_error import ApiError
from hookline_server.auth.key import KeySet, Scope
from hookline_server.auth.key_ring import KEY_RING, KeyRing
from hookline_server.auth.route_scopes import LIVENESS, ROUTE_SCOPES, RouteScopes
from hookline_server.browser_guard import BROWSER_GUARD, BrowserGuard
from hookline_server.entrance import Entrance
from hookline_server.handlers.health import LIVE_PATHS, LIVE_ROUTES
from hookline_server.leftovers import close_if_long
from hookline_server.listening import Bound, Listening
from hookline_server.request_body import HANDLER_ARGS
from hookline_server.request_identity import echo_request_id
from hookline_server.respelling import ROOT_PATH
from hookline_server.sending import send
from hookline_server.settings import ServerSettings


def loading_apps(
    listening: Listening, settings: ServerSettings, keys: KeyRing
) -> list[tuple[web.Application, Bound]]:
    """Returns such an application for the API and the pages, on copies of sockets."""
    found = []
    for each in listening.bounds:
        hosts = settings.pages_hosts if each is listening.pages else settings.hosts
        app = create_loading_app(keys, BrowserGuard(hosts, settings.cors))
        app[ROOT_PATH] = settings.root_path
        found.append((app, each.copied()))
    return found


def create_loading_app(keys: KeyRing, guard: BrowserGuard) -> web.Application:
    """Returns the application that serves until the engine has started."""
    app = web.Application(
        middlewares=(send, Entrance().middleware), handler_args=HANDLER_ARGS
    )
    app[KEY_RING] = keys
    app[BROWSER_GUARD] = guard
    keys.budgets.use(KeySet())  # nothing is served that could be limited
    app[ROUTE_SCOPES] = RouteScopes(Scope.SERVE)
    app.on_response_prepare.append(echo_request_id)
    app.on_response_prepare.append(close_if_long)
    app.on_response_prepare.append(_close_connection)
    app.add_routes(LIVE_ROUTES)
    for path in LIVENESS.difference(LIVE_PATHS):
        app.router.add_get(path, _not_yet)
    app.router.add_route("*", "/{path:.*}", _not_yet)
    return app


async def _not_yet(_: web.Request) -> web.StreamResponse:
    raise ApiError(503, "the model is loading", code="loading")


async def _close_connection(_: web.Request, response: web.StreamResponse) -> None:
    # No keep-alive, so that the next request reaches the real server.
    response.headers["Connection"] = "close"
    response.force_close()
