"""Whatever fails on Hookline's side, vLLM goes on."""

import logging
import subprocess
import sys
import threading
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from hookline.pages import PageRequest, PageResponse, Routes
from hookline_testing.attached_vllm import AttachedServer
from hookline_testing.fake_vllm import (
    LENGTH,
    AggregateStatLoggerBase,
    EngineCoreOutput,
    EngineCoreRequest,
    FakeVllm,
    IterationStats,
    SchedulerStats,
    output_processor,
    vllm_config,
)
from hookline_testing.waiting import wait_until
from hookline_vllm import shapes
from hookline_vllm.attachment import Attachment
from hookline_vllm.general import wrap_processor
from hookline_vllm.notices import Inbox, Refused
from hookline_vllm.pages import Pages
from hookline_vllm.shapes import ShapeError, attach, need
from hookline_vllm.stat_logger import make_stat_logger
from hookline_vllm.telling import Telling


def stat_logger(attachment: Attachment) -> SimpleNamespace:
    made = make_stat_logger(AggregateStatLoggerBase, attachment)
    logger: SimpleNamespace = made(vllm_config(), [0])
    return logger


class Raising:
    """A stat logger that cannot do anything."""

    def __init__(self, _context: object) -> None:
        raise RuntimeError("no")


class Hanging:
    """A stat logger that never begins."""

    def __init__(self, _context: object) -> None:
        threading.Event().wait()


def test_missing_attribute_keeps_a_tier_off_and_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Another vLLM may have other names: one line tells which."""
    attachment = Attachment()
    processor = output_processor()
    del processor.abort_requests  # type: ignore[attr-defined]

    with caplog.at_level(logging.WARNING):
        assert not attach("requests", lambda: wrap_processor(processor, attachment))

    (line,) = caplog.messages
    assert line.endswith("OutputProcessor.abort_requests")
    assert not hasattr(processor.add_request, "is_hookline")  # type: ignore[attr-defined]
    assert not attachment.tells_requests


def test_shapes_are_those_of_the_fakes() -> None:
    """A name that is not read of vLLM is not needed of it."""
    need(SchedulerStats(), "num_running_reqs", "kv_cache_usage")
    with pytest.raises(ShapeError, match=r"IterationStats\.gone"):
        need(IterationStats(), "gone")


def test_wraps_are_put_on_once() -> None:
    """vLLM may load general plugins several times in a process."""
    attachment, processor = Attachment(), output_processor()
    attachment.inbox.is_open = True
    for _ in range(2):
        wrap_processor(processor, attachment)

    processor().add_request(EngineCoreRequest("a"), None)

    assert attachment.inbox.pop() is not None
    assert attachment.inbox.pop() is None


def test_request_of_another_shape_is_served() -> None:
    """What a wrap cannot read it leaves; so does the thread that takes notices."""
    attachment, made = Attachment(), output_processor()
    wrap_processor(made, attachment)
    processor = made()
    processor.add_request(SimpleNamespace(request_id="a"), None, object())

    assert processor.request_states.keys() == {"a"}


@pytest.mark.parametrize("known", [True, False])
def test_statistics_of_another_shape_are_left(
    known: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One log line names the attribute; what is of a known shape counts on."""
    monkeypatch.setenv("HOOKLINE_STAT_LOGGERS", "none")
    monkeypatch.setattr(shapes, "_complained", set())
    server = AttachedServer()
    with closing(server), caplog.at_level(logging.WARNING):
        server.wait_until_begun()
        for name in "ab":
            server.vllm.add(name)
            state: Any = SchedulerStats() if known else SimpleNamespace(running=1)
            ended = EngineCoreOutput(name, [1], LENGTH)
            if not known:
                ended.events = [SimpleNamespace(type=1)]  # type: ignore[list-item]
            server.vllm.step(ended, stats=state)
        server.attachment.tell(0.0)
        telling = server.attachment._telling
        assert telling is not None
        (engine,) = telling.front_end._engines.values()
        counted = engine.accounting.received, engine.accounting.num_in_flight

    lines = [line for line in caplog.messages if "is not understood" in line]
    assert len(lines) == (0 if known else 1)
    assert all("'timestamp'" in line or "'num_" in line for line in lines)
    assert counted == (2, 0)


def test_full_queue_drops_and_does_not_wait() -> None:
    """Its bound is that of our memory."""
    inbox = Inbox(bound=1)
    inbox.put(Refused(0, "nobody listens yet"))
    assert inbox.pop() is None
    inbox.is_open = True
    for _ in range(3):
        inbox.put(Refused(0, "full"))

    assert inbox.dropped == 2


@pytest.mark.parametrize("logger", ["Raising", "Hanging"])
def test_logger_that_does_not_start_harms_nobody(
    logger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts in a thread of its own, after vLLM."""
    monkeypatch.setenv("HOOKLINE_STAT_LOGGERS", f"{__name__}:{logger}")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    attachment, made = Attachment(), output_processor()
    wrap_processor(made, attachment)
    told = stat_logger(attachment)
    told.log_engine_initialized()
    vllm = FakeVllm(made(), told)

    vllm.add("a")
    vllm.step(EngineCoreOutput("a", [1]))

    assert vllm.processor.request_states.keys() == {"a"}
    if logger == "Raising":  # then nobody takes what is told
        wait_until(lambda: not attachment.inbox.is_open, "notices are kept for ever")


async def test_page_of_a_logger_is_served_below_hookline() -> None:
    """Also one that hangs gets an answer, and one that raises."""
    pages = Pages()

    def why(request: PageRequest) -> PageResponse:
        return PageResponse(
            body=request.path_values["id"].encode(), content_type="text/plain"
        )

    def broken(request: PageRequest) -> PageResponse:
        raise RuntimeError(request.path_values)

    def add_routes(routes_of: object, _: object) -> None:
        routes: Routes = routes_of("mine")  # type: ignore[operator]
        routes.get("/why/{id}", why)
        routes.get("/broken", broken)

    assert await answer(pages, "/hookline/why/7") == (503, b"")
    observers = SimpleNamespace(add_routes=add_routes, settle=lambda _: 0.0)
    pages.open(observers, lambda _: 0.0)

    assert await answer(pages, "/hookline/why/7") == (200, b"7")
    assert (await answer(pages, "/hookline/broken"))[0] == 500
    assert (await answer(pages, "/hookline/other"))[0] == 404


async def answer(pages: Pages, path: str) -> tuple[int, bytes]:
    """Status and body of a GET; the body only if it is a page's."""
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b""}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    scope = {"method": "GET", "path": path, "headers": [], "query_string": b""}
    await pages.serve(scope, receive, send)
    status, body = sent[0]["status"], sent[1]["body"]
    assert isinstance(status, int)
    assert isinstance(body, bytes)
    return status, body if status == 200 else b""


def test_attached_code_imports_no_torch() -> None:
    """It shares vLLM's processes, whose memory and start are not ours."""
    program = (
        "import sys, hookline_vllm.telling, hookline_vllm.endpoints;"
        "print([m for m in ('torch', 'numba', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert done.stdout.strip() == "[]"


def test_loggers_start_once_vllm_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the environment, and with their pages."""
    monkeypatch.setenv("HOOKLINE_STAT_LOGGERS", "prometheus")
    attachment, made = Attachment(), output_processor()
    wrap_processor(made, attachment)
    told = stat_logger(attachment)
    told.log_engine_initialized()
    vllm = FakeVllm(made(), told)
    vllm.add("a")
    vllm.processor.abort_requests(["a"], internal=True)

    wait_until(lambda: attachment._telling, "the loggers have not started")
    attachment.tell(0.0)
    telling = attachment._telling
    assert telling is not None
    (engine,) = telling.front_end._engines.values()
    assert engine.accounting.finished == {"abort": 1}
    attachment.close()


def test_what_ends_while_the_queue_is_full_does_not_stay_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then vLLM's own table tells which requests are still there."""
    monkeypatch.setenv("HOOKLINE_STAT_LOGGERS", "none")
    attachment, made = Attachment(), output_processor()
    attachment.inbox.is_open = True
    wrap_processor(made, attachment)
    attachment._telling = Telling(vllm_config(), [0], tells_requests=True)
    processor = made()
    for name in ("a", "b"):
        processor.add_request(EngineCoreRequest(name, name, [1, 2]), None)
    attachment._drain()
    attachment.inbox._bound = 0
    processor.abort_requests(["a"], internal=True)

    attachment._drain()

    (engine,) = attachment._telling.front_end._engines.values()
    assert engine.accounting.finished == {"abort": 1}
    assert engine.accounting.num_in_flight == 1
