"""The application on the metrics port: the loggers' pages, and health."""

from collections.abc import Iterable

from aiohttp import web
from aiohttp.typedefs import Middleware

from hookline_server.auth.key import Scope
from hookline_server.auth.key_ring import KEY_RING
from hookline_server.auth.route_scopes import ROUTE_SCOPES, RouteScopes
from hookline_server.browser_guard import BROWSER_GUARD, BrowserGuard
from hookline_server.context import DEPARTURE, ENGINE, SETTINGS
from hookline_server.entrance import Entrance
from hookline_server.errors import shape_error
from hookline_server.handlers.health import HEALTH_ROUTES
from hookline_server.leftovers import close_if_long
from hookline_server.request_body import HANDLER_ARGS
from hookline_server.request_identity import echo_request_id

PAGES_APP: web.AppKey[web.Application] = web.AppKey(
    "hookline_pages_app", web.Application
)
"""The application that serves pages: the API's own, or a separate one."""


def create_pages_app(
    app: web.Application, outermost: Iterable[Middleware]
) -> web.Application:
    """Returns a separate application for pages, which are registered later.

    Args:
        app: The API's application, with the engine and the settings.
        outermost: The API's middlewares that see every request.
    """
    settings = app[SETTINGS]
    pages_app = web.Application(
        middlewares=(*outermost, Entrance().middleware),
        client_max_size=settings.max_body_bytes,
        handler_args=HANDLER_ARGS,
    )
    pages_app[ENGINE] = app[ENGINE]
    pages_app[SETTINGS] = settings
    pages_app[DEPARTURE] = app[DEPARTURE]
    pages_app[KEY_RING] = app[KEY_RING]
    pages_app[BROWSER_GUARD] = BrowserGuard(settings.pages_hosts, settings.cors)
    pages_app[ROUTE_SCOPES] = RouteScopes(Scope.METRICS)
    pages_app.on_response_prepare.append(shape_error)
    pages_app.on_response_prepare.append(echo_request_id)
    pages_app.on_response_prepare.append(close_if_long)
    pages_app.add_routes(HEALTH_ROUTES)
    return pages_app
