"""What a server tells its loggers before one of their pages is made."""

import asyncio
import time

import pytest
from aiohttp.test_utils import TestClient, TestServer

from hookline_server import page_news
from hookline_server.app import create_app
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine

PATIENCE_SECONDS = 60.0


async def told(engine: FakeEngine, seconds: float = PATIENCE_SECONDS) -> float:
    assert engine.tell_first is not None
    return await asyncio.to_thread(engine.tell_first, seconds)


async def test_every_exchange_is_told_that_a_client_has_read() -> None:
    """Right after each of many answers, none is missing; without news, nothing is."""
    engine = FakeEngine()
    async with TestClient(TestServer(create_app(engine, ServerSettings()))) as client:
        for number in range(1, 21):
            async with client.get("/version") as answer:
                await answer.read()

            assert await told(engine) == 0

            exchanges = [each for one in engine.answered for each in one.exchanges]
            assert [each.route for each in exchanges] == ["/version"] * number
        engine.answered.clear()
        assert await told(engine) == 0
        assert engine.answered == []
    assert await told(engine) == 0  # nobody turns the loop


class Confirming(FakeEngine):
    """An engine that confirms one end after another, while others come."""

    def __init__(self) -> None:
        super().__init__()
        now = time.monotonic_ns()
        self.looks = [{1: now, 2: now}, {2: now}, {2: now, 3: now}, {3: now}]

    @property
    def unconfirmed_ends(self) -> dict[int, int]:
        return self.looks.pop(0)

    @unconfirmed_ends.setter
    def unconfirmed_ends(self, _: dict[int, int]) -> None:
        """Keeps the script."""


async def test_ends_are_told_once_the_engine_confirms_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not those that come meanwhile; what is not confirmed in time is behind."""
    engine, late = Confirming(), Confirming()
    async with TestClient(TestServer(create_app(engine, ServerSettings()))):
        assert await told(engine) == 0
        assert engine.looks == []
    monkeypatch.setattr(page_news, "_GRACE_SECONDS", PATIENCE_SECONDS)
    async with TestClient(TestServer(create_app(late, ServerSettings()))):
        assert await told(late, 0.0) > 0
        assert len(late.looks) == 3
