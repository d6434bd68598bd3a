"""The server of a batch: its application on a socket that only this user reaches."""

import os
import shutil
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager

import aiohttp
from aiohttp import web

from hookline_host.folders import make_temporary
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
    with _listening() as (listening, place):
        app = create_app(engine, settings)
        served = [(app, listening)]
        if pages is not None:
            served.append((app[PAGES_APP], pages))
        # Nobody else connects, so a client that pauses is no attack.
        limits = ConnectionLimits(keep_alive=_NO_LIMIT)
        async with sites(served, limits) as connections, _client(place) as session:
            report_parts(engine, app, connections)
            yield app, session


def _client(place: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        _BASE_URL,
        connector=aiohttp.UnixConnector(f"/proc/self/fd/{place}", limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
    )


@contextmanager
def _listening() -> Iterator[tuple[socket.socket, int]]:
    """Yields a listening socket, and a descriptor of its place.

    Only this process has that: its file is gone, so that nothing is left of it, and
    nobody who cleans up the temporary folder can remove it meanwhile.
    """
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        folder = make_temporary("hookline-batch-")
        try:
            path = folder / "api.sock"
            listening.bind(str(path))
            place = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        listening.listen(BACKLOG)
        listening.setblocking(False)
        try:
            yield listening, place
        finally:
            os.close(place)
