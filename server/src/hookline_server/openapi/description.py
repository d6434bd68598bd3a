"""The description of a server, generated once, on the first request for it."""

import asyncio
from functools import cached_property

import msgspec
from aiohttp import web

from hookline_server.openapi.document import openapi_document
from hookline_server.openapi.page import html_page


class Description:
    """The OpenAPI document of an application, and its page."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._lock = asyncio.Lock()

    async def json(self) -> bytes:
        """Returns the document as JSON."""
        async with self._lock:
            return await asyncio.to_thread(lambda: self._json)

    async def html(self) -> bytes:
        """Returns the document's page."""
        async with self._lock:
            return await asyncio.to_thread(lambda: self._html)

    @cached_property
    def _json(self) -> bytes:
        return msgspec.json.encode(openapi_document(self._app))

    @cached_property
    def _html(self) -> bytes:
        return html_page(msgspec.json.decode(self._json)).encode()


DESCRIPTION: web.AppKey[Description] = web.AppKey("hookline_description", Description)
