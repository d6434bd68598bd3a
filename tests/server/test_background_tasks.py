"""Tasks beside a block of code end with it; an API server's task outlives errors."""

import asyncio
import logging
from typing import cast

import pytest
from aiohttp import web

from hookline_server.api_servers import fleet
from hookline_server.api_servers.fleet import Engines, Fleet
from hookline_server.api_servers.process import ApiServerProcess
from hookline_server.api_servers.share import Share
from hookline_server.api_servers.shared_state import SharedState
from hookline_server.api_servers.shares import Shares
from hookline_server.background import in_background
from hookline_server.listening import Listening


async def forever(has_ended: asyncio.Event) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        has_ended.set()


async def test_task_ends_with_the_block_that_raises() -> None:
    """What runs beside code that fails is cancelled, and the error goes on."""
    has_ended = asyncio.Event()

    async def drain() -> None:
        async with in_background(forever(has_ended)):
            await asyncio.sleep(0)
            raise RuntimeError("drain")

    with pytest.raises(RuntimeError, match="drain"):
        await drain()

    await asyncio.wait_for(has_ended.wait(), 10)


async def test_task_ends_with_the_block_that_is_cancelled() -> None:
    """Whoever waits beside it may be cancelled; it does not stay behind."""
    has_ended, waits = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        async with in_background(forever(has_ended)):
            waits.set()
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await waits.wait()
    await asyncio.sleep(0)
    waiting.cancel()

    await asyncio.wait_for(has_ended.wait(), 10)


async def test_heartbeat_of_a_server_ends_although_its_life_is_broken_off() -> None:
    """The task beside an application's life is cancelled if that ends by an error."""
    descriptor = Shares.make(1)
    share = Share(Shares(descriptor, 1), 0)
    before = asyncio.all_tasks()
    life = share.lifetime(web.Application())
    await anext(life)
    (beating,) = asyncio.all_tasks() - before

    with pytest.raises(RuntimeError, match="broken off"):
        await life.athrow(RuntimeError("broken off"))  # type: ignore[attr-defined]

    await asyncio.wait((beating,), timeout=10)
    assert beating.cancelled()


class Killed:
    """A process of which one only sees whether it was killed."""

    is_killed = False

    def kill(self) -> None:
        self.is_killed = True


def made_fleet() -> Fleet:
    """A fleet without processes, whose places may be looked at one by one."""
    made = Fleet.__new__(Fleet)
    made._listening = cast("Listening", type("Sockets", (), {"all": ()}))
    made._descriptor = 0
    return made


async def test_api_server_that_cannot_be_started_is_one_that_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its place gets another one by the usual policy, as its task does not fail."""

    def refuse(*_: object) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(fleet, "ApiServerProcess", refuse)

    reason = await made_fleet()._run(
        fleet._Place(0), cast("Engines", None), cast("SharedState", None)
    )

    assert reason == "its process cannot be started: no more processes"


async def test_api_server_that_is_not_heard_any_more_is_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error about what it says ends its process, and the log has the reason."""

    async def fail() -> None:
        raise ValueError("half a message")

    place, process = fleet._Place(2), Killed()
    talking = asyncio.create_task(fail())
    await asyncio.wait((talking,))

    fleet._end_unheard(place, cast("ApiServerProcess", process), talking)

    assert process.is_killed
    assert place.kill_reason == "what it says cannot be taken: half a message"
    assert "API server 2: what it says cannot be taken" in caplog.text


async def test_watch_over_api_servers_outlives_errors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error while they are looked after is logged once, and looking goes on."""
    looks = []
    has_gone_on = asyncio.Event()

    def overrun() -> frozenset[int]:
        looks.append(1)
        if len(looks) > 2:
            has_gone_on.set()
            return frozenset()
        raise RuntimeError("Set changed size during iteration")

    monkeypatch.setattr(fleet, "_LOOK_SECONDS", 0.001)
    made = made_fleet()
    made._places = []
    engines = cast("Engines", type("Owner", (), {"overrun": staticmethod(overrun)}))

    with caplog.at_level(logging.ERROR):
        async with in_background(made._watch(engines)):
            await asyncio.wait_for(has_gone_on.wait(), 10)

    assert caplog.text.count("API servers: look: RuntimeError: Set changed") == 1
