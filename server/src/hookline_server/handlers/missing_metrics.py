"""`/metrics` where it is not served: a 404 that says where or how it would be."""

from aiohttp import web

from hookline_server.api_error import ApiError
from hookline_server.auth.key import Scope
from hookline_server.auth.route_scopes import ROUTE_SCOPES
from hookline_server.openapi.operation import undescribed
from hookline_server.pages import PAGES
from hookline_server.pages_app import PAGES_APP

PATH = "/metrics"
ADVICE = "add --stat-logger prometheus"


def is_served(app: web.Application) -> bool:
    """Whether a logger serves the page, or files at all paths."""
    return not {PATH, "/"}.isdisjoint(app[PAGES].paths)


def explain_missing_metrics(app: web.Application) -> None:
    """Registers the explanation wherever the loggers have not registered the page."""
    pages_app = app[PAGES_APP]
    if not is_served(app):
        pages_app[ROUTE_SCOPES].add(PATH, Scope.METRICS)
        pages_app.router.add_get(PATH, _not_served)
    if pages_app is not app:
        app.router.add_get(PATH, _elsewhere if is_served(app) else _not_served)


@undescribed
async def _not_served(_: web.Request) -> web.StreamResponse:
    message = f"no stat logger serves {PATH}: {ADVICE} to the server's options"
    raise ApiError(404, message, code="route_not_found")


@undescribed
async def _elsewhere(_: web.Request) -> web.StreamResponse:
    message = f"{PATH} is not served here, but on the port of --metrics-port"
    raise ApiError(404, message, code="route_not_found")
