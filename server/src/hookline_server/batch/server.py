"""The server of a batch: its application on a socket that only this user reaches."""

import shutil
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web

from hookline_server.app import create_app
from hookline_server.connections.limits import ConnectionLimits
from hookline_server.engine import ServingEngine
from hookline_server.listening import BACKLOG
from hookline_server.pages_app import PAGES_APP
from hookline_server.serving import report_parts
from hookline_server.settings import ServerSettings
from hookline_server.sites import sites

_NO_LIMIT = float("inf")
_BASE_URL = "http://localhost"


@asynccontextmanager
async def batch_server(
    engine: ServingEngine, settings: ServerSettings, pages: socket.socket | None
) -> AsyncIterator[tuple[web.Application, aiohttp.ClientSession]]:
    """Serves an engine, and yields the application and a client of it.

    Args:
        engine: A started engine, which stays open.
        settings: The server's settings.
        pages: Listening socket for the loggers' pages; None serves none.
    """
    folder = Path(tempfile.mkdtemp(prefix="hookline-batch-"))
    try:
        path = folder / "api.sock"
        app = create_app(engine, settings)
        served = [(app, _listen(path))]
        if pages is not None:
            served.append((app[PAGES_APP], pages))
        # Nobody else connects, so a client that pauses is no attack.
        limits = ConnectionLimits(keep_alive=_NO_LIMIT)
        async with sites(served, limits) as connections, _client(path) as session:
            report_parts(engine, app, connections)
            yield app, session
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _client(path: Path) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        _BASE_URL,
        connector=aiohttp.UnixConnector(str(path), limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
    )


def _listen(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen(BACKLOG)
    listening.setblocking(False)
    return listening
