"""`/openapi.json` and `/docs`: what this server serves."""

from aiohttp import web

from hookline_server.openapi.description import DESCRIPTION
from hookline_server.openapi.operation import Operation, Tag, described

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""The page loads nothing but its own inline style."""


@described(Operation(tag=Tag.SERVER, answer=dict[str, object]))
async def openapi(request: web.Request) -> web.Response:
    """Describes the API as an OpenAPI 3.1 document."""
    body = await request.app[DESCRIPTION].json()
    return web.Response(body=body, content_type="application/json")


@described(Operation(tag=Tag.SERVER, media_type="text/html"))
async def docs(request: web.Request) -> web.Response:
    """Shows this description as a page."""
    return web.Response(
        body=await request.app[DESCRIPTION].html(),
        content_type="text/html",
        charset="utf-8",
        headers={"Content-Security-Policy": _POLICY},
    )


DESCRIPTION_ROUTES = (web.get("/openapi.json", openapi), web.get("/docs", docs))
