"""The live view in a real Chromium: each panel shows the staged engine's numbers."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient
from aiohttp.web import Application, Request

from hookline_live.logger import LiveView
from hookline_registry import LaneStats
from hookline_server.settings import ServerSettings
from hookline_testing.chromium import Page, browsing
from hookline_testing.payloads import make_state
from hookline_testing.scripted_server import FakeEngine, client_of
from hookline_testing.staged_engine import StagedEngine

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("chromium")]
KEY = "a-key-of-this-test"
HOSTILE = "<img src=x onerror=\"document.title='pwned'\">\u202e"


@asynccontextmanager
async def viewing(
    folder: Path,
    settings: ServerSettings | None = None,
    *,
    width: int = 1280,
    is_phone: bool = False,
    lane: str = "live",
) -> AsyncIterator[tuple[Page, str, TestClient[Request, Application]]]:
    """Serves the view and opens a browser; yields its page and the view's URL."""
    engine = FakeEngine()
    view = LiveView(os.getpid(), {"ttft": 0.5})
    told = LaneStats(
        name=lane,
        depth=0,
        delivered=7,
        dropped=2,
        errors=0,
        busy_seconds=0.5,
        breaker="closed",
        last_error=None,
    )
    view.state_changed(make_state(lanes=(told,)))
    engine.loggers = [view]
    profile = folder / "profile"
    profile.mkdir()
    async with (
        client_of(engine, settings) as client,
        browsing(profile, width=width, is_phone=is_phone) as page,
    ):
        yield page, str(client.make_url("/live/")), client


def staged_in(folder: Path) -> StagedEngine:
    """Three requests of which two run, one waits, and one has ended."""
    staged = StagedEngine(folder, num_seqs=2)
    staged.add("ended", "red", prompt=32, n=2)
    staged.turn(times=4)
    staged.add(HOSTILE, "red", prompt=48, n=40)
    staged.add("runs", f"blue{HOSTILE}", prompt=64, n=40)
    staged.add("waits", "blue", prompt=16, n=40)
    staged.turn(times=6)
    return staged


async def shown(page: Page, name: str) -> str:
    found = await page.evaluate(f"document.getElementById('{name}').innerText")
    return " ".join(str(found).replace("\u202f", "").split())


async def test_every_panel_shows_the_engine(folder: Path) -> None:
    """
    At a moment of a staged engine, all panels have its numbers, and no text of a client
    is more than text.
    """
    staged = staged_in(folder)
    at = staged.clock.wall() // 1_000_000
    async with viewing(folder) as (page, url, client):
        await page.go(f"{url}#at={at}")
        await page.until(f"document.body && document.body.dataset.at == {at}")

        assert await shown(page, "t-running") == "running 2 of 2"
        assert await shown(page, "t-waiting") == "waiting 1"
        assert await shown(page, "t-preempted") == "preemptions 0 /min"
        assert "≤ 12 ms" in await shown(page, "t-itl")
        assert await shown(page, "s-requests") == "1 queued, 2 decode, 1 ended"
        assert (await shown(page, "s-steps")).startswith("11 in a minute, mean 10 ms")
        assert (await shown(page, "s-steps")).endswith("forward pass 100.0 %")
        assert "prompts 27.1 % decoding 72.9 %" in await shown(page, "l-steps")
        assert (await shown(page, "s-latency")).startswith("3 in a minute: p50 ≤ 12 ms")
        assert await shown(page, "s-queue") == "1 wait, the first for 70 ms"
        assert await shown(page, "obstacle") == "batch slots"
        assert await shown(page, "l-obstacles") == "batch slots 70 ms"
        assert await shown(page, "queue") == "waits blue 70 ms"
        held = 4 + 5
        assert (await shown(page, "s-kv")).startswith(f"{held} held")
        assert (await shown(page, "holders")).endswith("4 blocks")
        tenants = await shown(page, "tenants")
        assert "red 1 0 4 11 blue<img src=x" in tenants
        assert "\ufffd 1 0 5 8 blue 0 1 0 0" in tenants
        assert "prompt tokens cached 0.0 % 0 of 144" in await shown(page, "more")
        assert "demo 11 2 of 2 1" in await shown(page, "engines")
        await _asks_why(page)
        await page.evaluate("document.getElementById('live').click()")
        assert await page.evaluate("document.title") == "Hookline live"
        assert await page.evaluate("document.querySelectorAll('main img').length") == 0
        complaints = [each for each in page.complaints if "404" not in each]
        assert complaints == []
        own = str(client.make_url("/"))
        assert [each for each in page.requested if not each.startswith(own)] == []
    staged.loop.close()


async def _asks_why(page: Page) -> None:
    """Chooses a request by keys; its dialog says what the page knows of it."""
    await page.press("ArrowDown")
    await page.press("ArrowDown")
    await page.press("Enter")
    await page.until("document.getElementById('why').open")
    facts = await shown(page, "why-facts")

    assert "prompt 48 tokens, 0 of them cached" in facts
    assert (await shown(page, "why-id")).startswith("<img src=x onerror=")
    await page.until("document.getElementById('why-said').innerText !== '…'")
    await page.evaluate("document.getElementById('why').close()")


async def test_page_follows_pauses_and_goes_back(folder: Path) -> None:
    """
    Live frames arrive; space pauses them, the arrow goes back, L goes on, and the
    address is a permanent link.
    """
    staged = staged_in(folder)
    async with viewing(folder) as (page, url, _):
        await page.go(url)
        await page.until("document.body && document.body.dataset.at")
        seen = await page.evaluate("document.body.dataset.at")
        await page.until(f"document.body.dataset.at > {seen}")
        await page.press(" ")
        await page.until("location.hash.includes('at=')")
        await page.until("document.getElementById('pause').innerText === 'Go on'")
        link = await page.evaluate("location.href")
        await page.press("l")
        await page.until("document.getElementById('status').innerText.includes('live')")

        assert "at=" in link
        assert "at=" not in await page.evaluate("location.href")
    staged.loop.close()


async def test_names_are_text(folder: Path) -> None:
    """
    Names of the model and of loggers are not markup, and tenants may be called as
    what every object of JavaScript has.
    """
    staged = StagedEngine(folder, name=HOSTILE)
    for tenant in ("constructor", "__proto__", "toString"):
        staged.add(tenant, tenant, n=4)
    staged.turn(times=8)
    at = staged.clock.wall() // 1_000_000
    async with viewing(folder, lane=HOSTILE) as (page, url, _):
        await page.go(f"{url}#at={at}")
        await page.until(f"document.body && document.body.dataset.at == {at}")
        await page.until("document.getElementById('lanes').rows.length > 1")

        assert (await shown(page, "model")).startswith("<img src=x onerror=")
        engines = await shown(page, "engines")
        assert "idle <img src=x onerror=" in engines
        assert "\ufffd 6 0 of 4" in engines
        lanes = await shown(page, "lanes")
        assert "<img src=x onerror=" in lanes
        assert "\ufffd 7 0 2 0 closed" in lanes
        tenants = await shown(page, "tenants")
        for tenant in ("constructor", "__proto__", "toString"):
            assert f"{tenant} 0 0 0 4" in tenants
        assert await page.evaluate("document.querySelectorAll('main img').length") == 0
        assert await page.evaluate("document.title") == "Hookline live"
        assert page.complaints == []
    staged.loop.close()


async def test_page_asks_for_a_key(folder: Path) -> None:
    """
    With an API key, the page asks for it, and then reads with it.
    """
    staged = staged_in(folder)
    async with viewing(folder, ServerSettings(api_key=KEY)) as (page, url, _):
        await page.go(url)
        await page.until("document.getElementById('login')?.open")
        await page.evaluate(
            f"document.getElementById('key').value = '{KEY}';"
            "document.querySelector('#login button').click()"
        )
        await page.until("document.body.dataset.at")

        assert "demo" in await shown(page, "engines")
    staged.loop.close()


async def test_page_fits_a_phone_and_the_dark(folder: Path) -> None:
    """
    On a phone nothing is wider than the screen, and who prefers dark pages gets one.
    """
    staged = staged_in(folder)
    async with viewing(folder, width=390, is_phone=True) as (page, url, _):
        await page.media("dark")
        await page.go(f"{url}#at={staged.clock.wall() // 1_000_000}")
        await page.until("document.body && document.body.dataset.at")

        assert await page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    staged.loop.close()
