"""A logger whose pages hang, beside loggers that work."""

import threading
from pathlib import Path

import pytest

from hookline_testing.plugin_site import PluginSite
from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

HANGING = """
import threading

from hookline import hookimpl
from hookline.pages import PageEvent, PageResponse


def hang(request):
    threading.Event().wait()


def hang_streaming():
    yield PageEvent(data="first")
    threading.Event().wait()


@hookimpl
def add_routes(routes):
    routes.get("/hangs", hang)
    routes.events("/hangs/events", hang_streaming)
"""

WORKING = """
from hookline import hookimpl
from hookline.pages import PageEvent, PageResponse


def stream():
    yield PageEvent(data="works")


@hookimpl
def add_routes(routes):
    page = PageResponse(body=b"works", content_type="text/plain")
    routes.get("/works", lambda request: page)
    routes.events("/works/events", stream)
"""

CLIENTS = 20
"""More than a server's threads for pages or for streams."""


def leave_early(server: Server, path: str) -> None:
    """Asks for a page whose client does not wait long."""
    try:
        server.get(path, timeout_seconds=0.5)
    except TimeoutError:
        return


def test_hung_pages_of_one_logger_leave_the_others_served(tmp_path: Path) -> None:
    """
    Pages and streams of a logger hang for ever; those of another, and the metrics, are
    served, and the metrics name the logger whose pages hang.
    """
    with PluginSite(tmp_path) as site:
        site.install("hanging", HANGING)
        site.install("working", WORKING)
    loggers = [
        word
        for name in ("hanging", "working", "prometheus")
        for word in ("--stat-logger", name)
    ]
    environment = {"PYTHONPATH": str(tmp_path)}
    with serving(
        *("--executor", "simulated", "--port", "0", *loggers), environment=environment
    ) as server:
        clients = [
            threading.Thread(target=leave_early, args=(server, path))
            for path in ("/hangs", "/hangs/events")
            for _ in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()

        assert server.get("/works", timeout_seconds=30)[1] == "works"
        assert "works" in server.get("/works/events", timeout_seconds=30)[1]
        status, error = server.get("/hangs")
        assert status == 503
        assert "'hanging'" in error
        server.wait_for("hookline_logger_pages_hung", 2, logger="hanging")
        assert server.metric("hookline_logger_pages_hung", logger="working") == 0
