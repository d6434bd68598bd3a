"""The live view's page: who may see it, what it loads, and that it is small."""

import json
import os
import re
from pathlib import Path

import pytest

import hookline_live
from hookline_live import top
from hookline_live.frame import Frame
from hookline_live.logger import LiveView
from hookline_live.screen import painted
from hookline_live.totals import Totals
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of
from hookline_testing.staged_engine import StagedEngine

STATIC = Path(hookline_live.__file__).parent / "static"
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202eevil"
KEY = "a-key-of-this-test"


def engine_with_view() -> FakeEngine:
    engine = FakeEngine()
    engine.loggers = [LiveView(os.getpid(), {"ttft": 0.5})]
    return engine


async def test_page_needs_no_key_but_its_data_do(staged: StagedEngine) -> None:
    """
    With keys, the page loads without one, and loads nothing from elsewhere; what it
    reads needs a key.
    """
    staged.add("a", n=4)
    settings = ServerSettings(api_key=KEY)
    async with client_of(engine_with_view(), settings) as client:
        page = await client.get("/live/")
        script = await client.get("/live/app.js")
        refused = [await client.get(f"/live/{each}") for each in ("moment", "frames")]
        told = await client.get(
            "/live/moment", headers={"Authorization": f"Bearer {KEY}"}
        )
        frame = json.loads(await told.read())

    assert (page.status, script.status) == (200, 200)
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert [each.status for each in refused] == [401, 401]
    assert frame["objectives"] == {"ttft": 0.5}
    assert frame["engines"][0]["rows"][0]["client"] == "a"


async def test_frames_are_streamed(staged: StagedEngine) -> None:
    """
    The stream has frames in JSON, one an event.
    """
    staged.add("a", n=4)
    async with client_of(engine_with_view()) as client:
        response = await client.get("/live/frames")
        event = await response.content.readuntil(b"\n\n")
        response.close()

    assert event.startswith(b"data: {")
    assert json.loads(event[6:])["engines"][0]["num_blocks"] == 64


@pytest.mark.parametrize("at", ["soon", "-1", "1" * 30])
@pytest.mark.usefixtures("folder")
async def test_moments_are_times(at: str) -> None:
    """
    A moment that is none is refused.
    """
    async with client_of(engine_with_view()) as client:
        response = await client.get("/live/moment", params={"at": at})

        assert response.status == 400


@pytest.mark.usefixtures("folder")
async def test_probe_leads_a_browser_to_the_page() -> None:
    """
    `/live` is a probe, unless somebody opens it in a browser.
    """
    async with client_of(engine_with_view()) as client:
        probe = await client.get("/live")
        visit = await client.get("/live", headers={"Accept": "text/html,*/*"})

        assert (await probe.json())["status"] == "alive"
        assert visit.url.path == "/live/"


def test_page_is_small_and_its_own() -> None:
    """
    All files have at most 300 KB, name no other host, and make no markup of text.
    """
    files = [path for path in STATIC.iterdir() if path.is_file()]
    text = "\n".join(path.read_text() for path in files)
    names = set(re.findall(r"https?://[^\s\"')]+", text))

    assert sum(path.stat().st_size for path in files) <= 300_000
    assert names <= {"http://www.w3.org/2000/svg"}
    for danger in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "onclick="):
        assert danger not in text
    assert "style=" not in (STATIC / "index.html").read_text()


def test_top_shows_hostile_text_as_text(staged: StagedEngine) -> None:
    """
    Ids and tenants do not move the cursor, and numbers are the engine's.
    """
    staged.add(HOSTILE, f"t{HOSTILE}", prompt=32, n=9, adapter=f"a{HOSTILE}")
    staged.turn(times=3)
    totals = Totals()
    totals.add(LiveView(os.getpid(), {}).frame_at(staged.clock.wall()))

    plain = painted(totals, 160, 60, colours=False)
    coloured = painted(totals, 160, 60)

    assert "\x1b" not in plain
    assert "\u202e" not in plain
    assert "\x1b[31m" not in coloured
    assert "<img src=x onerror=alert(1)>\ufffd" in plain
    assert "1 of 4 run, 0 wait" in plain
    assert re.search(r"^a<img src=x onerror=al\S* +1 +0 +\d+$", plain, re.MULTILINE)
    assert "steps: planning 0 %, fixed cost 0 %, prompts 25 %, decoding 75 %" in plain
    assert re.search(r"decode +\S+ ms +32 +0 +4$", plain, re.MULTILINE)


def test_top_adds_up_frames() -> None:
    """
    Sums and quantiles are over all frames of a minute.
    """
    totals = Totals()
    for number in range(4):
        column = {
            "number": number,
            "steps": 2,
            "durations": {"ttft": {"12": 1 if number else 30}},
        }
        engine = {"index": 0, "pid": 1, "model": "m", "executor": "e"}
        frame = {"at": number * 250, "engines": [{**engine, "columns": [column]}]}
        totals.add(top.decoded(json.dumps(frame).encode()))

    assert totals.sum("steps") == 8
    assert totals.quantile("ttft", 0.5) == pytest.approx(0.00121, rel=0.01)
    assert totals.quantile("e2e", 0.5) is None


@pytest.mark.usefixtures("folder")
def test_frame_without_rings_says_so() -> None:
    """
    Without a flight recorder, the view says what is missing.
    """
    frame: Frame = LiveView(os.getpid(), {}).frame_at(1_795_000_000_000_000_000)

    assert frame.engines == []
    assert "--flight-recorder-bytes" in frame.note
