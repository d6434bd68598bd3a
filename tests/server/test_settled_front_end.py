"""What the server's process has imported is no work of its garbage collector."""

import gc
from pathlib import Path

import pytest

from hookline import hookimpl
from hookline.pages import PageRequest, PageResponse, Routes
from hookline.payloads import LoggerContext
from hookline_testing.server_process import serving


class FrozenObjects:
    """A logger whose page says how many objects collections leave out."""

    def __init__(self, _: LoggerContext) -> None:
        """Needs nothing of what loggers are made with."""

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        routes.get("/frozen", self.page)

    def page(self, _: PageRequest) -> PageResponse:
        frozen = str(gc.get_freeze_count()).encode()
        return PageResponse(body=frozen, content_type="text/plain")


@pytest.mark.exhaustive
def test_collections_leave_out_what_a_ready_server_has() -> None:
    """
    A full collection of all that was imported would hold up every token and page.
    """
    here = {"PYTHONPATH": str(Path(__file__).parent)}
    logger = "--stat-logger=test_settled_front_end:FrozenObjects"

    with serving(
        "--port=0", "--executor=simulated", logger, environment=here
    ) as server:
        status, frozen = server.get("/frozen")

    assert status == 200
    assert int(frozen) > 10_000
