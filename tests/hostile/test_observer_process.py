"""The observer process is held, stopped and killed: serving goes on, books balance."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest

from hookline_server.cli.metrics_tools.lanes import lane_reports
from hookline_server.cli.metrics_tools.page import read_page
from hookline_testing.essential import essential
from hookline_testing.own_time import Deadline
from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

PATIENCE_SECONDS = 60.0
OPTIONS = (
    *("--port", "0", "--executor", "simulated", "--simulated-step-seconds", "0.002"),
    *("--heartbeat-seconds", "0.2", "--observer-process"),
)
BODY = {"model": "demo", "prompt": "def main(", "max_tokens": 20, "ignore_eos": True}
ENDLESS = {**BODY, "max_tokens": 2000, "stream": True}

LOGGER = """
import ctypes
import os
from pathlib import Path

from hookline import hookimpl
from hookline.pages import PageEvent, PageResponse

class Holding:
    '''Takes the interpreter for as long as it is told to, and does not give it back.'''

    def __init__(self, context):
        self.folder = Path(context.options["folder"])
        self.seen = 0

    @hookimpl
    def step_finished(self, step):
        self.seen += 1
        end = self.folder / "end"
        if end.exists():
            if number := int(end.read_text()):
                os.kill(os.getpid(), number)
            os._exit(0)
        hold = self.folder / "hold"
        if hold.exists() and (seconds := hold.read_text()):
            hold.unlink()
            (self.folder / "held").touch()
            ctypes.PyDLL(None).sleep(int(seconds))
            (self.folder / "given back").touch()

    @hookimpl
    def engine_stopped(self, stopped):
        (self.folder / "stopped").write_text(stopped.reason)

    @hookimpl
    def add_routes(self, routes):
        routes.get("/own/page", lambda request: PageResponse(
            body=request.query.get("a", "").encode(), content_type="text/plain",
            status=202, headers={"X-Own": "yes"},
        ))
        routes.post("/own/echo", lambda request: PageResponse(
            body=request.body, content_type="application/json"
        ))
        routes.get("/own/broken", lambda request: 1 / 0)
        routes.events("/own/events", self.events)

    def events(self):
        for number in range(3):
            yield PageEvent(data=str(number))
"""


class Observed:
    """A server with an observer process, and the folder that its logger looks at."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder

    @property
    def pid(self) -> int:
        """The process that observes now."""
        found = observers_of(self.server.process.pid)
        assert len(found) == 1, found
        return found[0]

    def health(self) -> dict[str, str]:
        status, text = self.server.get("/health")
        assert status == 200
        found: dict[str, str] = json.loads(text)
        return found

    def hold(self, seconds: int) -> None:
        """Has the logger hold its interpreter at the next step."""
        (self.folder / "hold").write_text(str(seconds))
        until((self.folder / "held").exists, "the logger was not called")

    def complete(self) -> int:
        return self.server.post("/v1/completions", BODY)[0]

    def totals(self) -> dict[str, float]:
        """All that must never fall, but what is of the observer process itself."""
        status, text = self.server.get("/metrics")
        assert status == 200
        lines = [line.rpartition(" ") for line in text.splitlines() if line[0] != "#"]
        return {
            series: float(value)
            for series, _, value in lines
            if series.partition("{")[0].endswith(
                ("_total", "_bucket", "_count", "_sum")
            )
            and not series.startswith(("process_", "python_"))
        }

    def balance(self) -> tuple[float, float]:
        """Requests received and finished."""
        return (
            self.server.metric("hookline_requests_received_total"),
            self.server.metric("hookline_requests_finished_total", reason="length"),
        )


def observers_of(pid: int) -> list[int]:
    """Process ids of the observers that a server has started."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in path.read_text().split():
                words = Path(f"/proc/{child}/cmdline").read_bytes()
                if b"hookline_observer.process" in words:
                    found.append(int(child))
    return found


def until(
    holds: Callable[[], object], complaint: str, *, seconds: float = PATIENCE_SECONDS
) -> None:
    deadline = Deadline(seconds)
    while not holds():
        assert deadline.is_ahead, complaint
        time.sleep(0.02)


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or waits for a parent that looks after orphans."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    return True


@pytest.fixture
def observed(tmp_path: Path) -> Iterator[Observed]:
    (tmp_path / "holding.py").write_text(LOGGER)
    options = (
        *("--stat-logger", "holding:Holding"),
        *("--stat-logger-option", f"holding:Holding.folder={tmp_path}"),
    )
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    environment = {"PYTHONPATH": path}
    with serving(*OPTIONS, *options, environment=environment) as server:
        yield Observed(server, tmp_path)


def test_a_logger_that_holds_the_interpreter_slows_no_stream(
    observed: Observed,
) -> None:
    """
    Tokens are streamed while a logger does not give its interpreter back, and loggers'
    pages are served as they would be by the server itself.
    """
    server = observed.server
    connection, response = server.stream("/v1/completions", ENDLESS)
    response.readline()
    observed.hold(2)

    lines = 0
    while not (observed.folder / "given back").exists():
        assert response.readline()
        lines += 1

    connection.close()
    assert lines > 100  # of which a held server would send none
    assert_pages(server)


def assert_pages(server: Server) -> None:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/own/page?a=5")
    page = connection.getresponse()
    assert (page.status, page.read(), page.headers["X-Own"]) == (202, b"5", "yes")
    connection.request("GET", "/own/events")
    assert connection.getresponse().read() == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"
    connection.request("HEAD", "/own/page?a=5")
    page = connection.getresponse()
    assert (page.read(), page.headers["Content-Length"]) == (b"", "1")
    connection.close()
    assert server.post("/own/echo", {"b": 6}) == (200, {"b": 6})
    status, text = server.get("/own/broken")
    assert (status, json.loads(text)["error"]["code"]) == (500, "page_failed")
    name = "hookline_logger_page_failures_total"
    server.wait_for(name, 1, logger="holding:Holding", reason="raised")


def test_a_killed_observer_is_replaced(observed: Observed) -> None:
    """
    Without the observer process requests are served and pages are 503; its successor's
    books balance, and end with the server's.
    """
    server, pid = observed.server, observed.pid
    assert observed.complete() == 200
    server.wait_for("hookline_requests_finished_total", 1, reason="length")
    shown = observed.totals()
    os.kill(pid, signal.SIGKILL)
    until(lambda: has_ended(pid), "the observer did not end")

    status, text = server.get("/metrics")
    assert (status, json.loads(text)["error"]["code"]) == (503, "observer_unavailable")
    assert observed.complete() == 200
    until(lambda: server.get("/metrics")[0] == 200, "the observer was not replaced")
    server.wait_for("hookline_observer_restarts_total", 1)
    server.wait_for("hookline_engine_up", 1)
    now = observed.totals()
    assert {name for name in shown if now.get(name, -1.0) < shown[name]} == set()

    before = observed.balance()
    assert before[0] == before[1]
    assert observed.complete() == 200
    server.wait_for("hookline_requests_finished_total", before[1] + 1, reason="length")
    server.wait_for("hookline_requests_received_total", before[0] + 1)
    successor = observed.pid
    assert server.end() == 0
    assert (observed.folder / "stopped").read_text() == "closed"
    assert has_ended(successor)
    log = server.log.read_text()
    assert log.count("the observer process has ended") == 1


@pytest.mark.parametrize(
    "number", essential([0, signal.SIGSEGV, signal.SIGKILL], signal.SIGSEGV)
)
def test_a_logger_that_ends_the_process_is_left_out(
    observed: Observed, number: int
) -> None:
    """
    The others go on, with all that they had counted; the log, a metric and the doctor
    tell who it is, and its pages are 503.
    """
    server = observed.server
    assert observed.complete() == 200
    server.wait_for("hookline_requests_finished_total", 1, reason="length")
    shown = observed.totals()
    (observed.folder / "end").write_text(str(int(number)))

    said = "the logger holding:Holding has ended the observer process"
    until(
        lambda: observed.complete() == 200 and said in server.log.read_text(),
        "it was not found",
        seconds=5 * PATIENCE_SECONDS,  # the process starts again for each end
    )

    until(lambda: server.get("/metrics")[0] == 200, "the others do not go on")
    server.wait_for("hookline_logger_left_out", 1, logger="holding:Holding")
    now = observed.totals()
    assert {name for name in shown if now.get(name, -1.0) < shown[name]} == set()
    assert observed.complete() == 200
    until(lambda: len({*observed.balance()}) == 1, "the books do not balance")
    [report] = [
        each
        for each in lane_reports(read_page(server.get("/metrics")[1], "/metrics"))
        if each.logger == "holding:Holding"
    ]
    assert "left out" in report.problems[0]
    status, text = server.get("/own/page")
    assert (status, json.loads(text)["error"]["code"]) == (503, "observer_unavailable")


def test_a_stopped_observer_is_waited_for_by_nobody(observed: Observed) -> None:
    """
    While the observer process is stopped, requests are served, what does not fit into
    the outbox is dropped, and both are told; when it goes on, all numbers are right.
    """
    server = observed.server
    assert observed.complete() == 200
    os.kill(observed.pid, signal.SIGSTOP)
    connection, response = server.stream("/v1/completions", ENDLESS)

    while response.readline() != b"data: [DONE]\n":
        pass

    connection.close()
    until(lambda: "observer" in observed.health(), "the silence was not told")
    assert observed.complete() == 200
    assert server.get("/metrics")[0] == 503
    os.kill(observed.pid, signal.SIGCONT)
    until(lambda: server.get("/metrics")[0] == 200, "it did not go on")
    server.wait_for("hookline_requests_received_total", 3)
    server.wait_for("hookline_requests_running", 0)
    server.wait_for_any("hookline_observer_dropped_notices_total")
    server.wait_for_any("hookline_logger_dropped_batches_total", logger="prometheus")
    assert "observer" not in observed.health()


def test_a_logger_that_holds_it_for_ever_delays_no_end(observed: Observed) -> None:
    """
    A server whose logger never gives its interpreter back ends as it should, and its
    observer process with it.
    """
    pid = observed.pid
    connection, response = observed.server.stream("/v1/completions", ENDLESS)
    response.readline()
    observed.hold(3600)
    connection.close()

    assert observed.server.end() == 0

    assert has_ended(pid)


def test_no_observer_outlives_its_server(observed: Observed) -> None:
    """
    When the server is killed, the observer process ends by itself.
    """
    pid = observed.pid

    observed.server.process.kill()

    until(lambda: has_ended(pid), "the observer process lives on")
