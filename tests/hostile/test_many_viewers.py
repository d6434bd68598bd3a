"""The live view with many viewers, slow ones among them, and several API servers."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout, TCPConnector

from hookline_testing.server_process import Server, api_servers_of, serving

pytestmark = pytest.mark.hostile

OPTIONS = (
    *("--port", "0", "--executor", "simulated", "--simulated-step-seconds", "0.005"),
    *("--stat-logger", "live"),
)
VIEWERS = 200
NAME = "r" * 128
BODY = {"model": "demo", "prompt": ["a"] * 100, "max_tokens": 4, "ignore_eos": True}
"""A hundred requests, so that frames are large."""
FRAMES = 3
PATIENCE_SECONDS = 150.0
MISSED_BYTES = 1 << 21
"""What others have read before a slow viewer reads: more than buffers hold."""


@asynccontextmanager
async def clients(server: Server) -> AsyncIterator[ClientSession]:
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        ClientSession(
            f"http://127.0.0.1:{server.port}",
            connector=TCPConnector(limit=0),
            timeout=ClientTimeout(total=None),
            read_bufsize=1 << 20,
        ) as session,
    ):
        yield session


async def frames_of(session: ClientSession, number: int) -> dict[int, bytes]:
    """The first frames of a viewer, by their time."""
    found: dict[int, bytes] = {}
    async with session.get("/live/frames") as response:
        assert response.status == 200
        while len(found) < number:
            event = await response.content.readuntil(b"\n\n")
            if event.startswith(b"data: "):
                found[json.loads(event.removeprefix(b"data: "))["at"]] = event
    return found


async def ask(session: ClientSession, ended: asyncio.Event) -> list[int]:
    """Asks again and again until the end; returns the answers' statuses."""
    statuses: list[int] = []
    while not ended.is_set():
        answer = await session.post(
            "/v1/completions", json=BODY, headers={"X-Request-Id": NAME}
        )
        assert len((await answer.json())["choices"]) == 100
        statuses.append(answer.status)
    return statuses


async def test_two_hundred_viewers_get_the_same_frames() -> None:
    """
    All get the same bytes, and a request is answered meanwhile.
    """
    with serving(*OPTIONS) as server:
        async with clients(server) as session:
            viewers = [frames_of(session, FRAMES) for _ in range(VIEWERS)]
            seen, answer = await asyncio.gather(
                asyncio.gather(*viewers),
                session.post("/v1/completions", json={**BODY, "prompt": "a"}),
            )
            status = answer.status

    assert {len(each) for each in seen} == {FRAMES}
    assert num_events(seen) == num_times(seen) < VIEWERS
    assert status == 200


async def test_slow_viewer_is_told_what_was_left_out() -> None:
    """
    Who does not read is told how many frames were left out, and requests are answered.
    """
    with serving(*OPTIONS) as server:
        async with clients(server) as session:
            ended = asyncio.Event()
            asking = asyncio.create_task(ask(session, ended))
            lost = await lost_by_one(server, session)
            ended.set()
            statuses = await asking

    assert lost > 0
    assert set(statuses) == {200}


def num_events(seen: Iterable[dict[int, bytes]]) -> int:
    return len({event for each in seen for event in each.values()})


def num_times(seen: Iterable[dict[int, bytes]]) -> int:
    return len({at for each in seen for at in each})


async def lost_by_one(server: Server, session: ClientSession) -> int:
    """How many frames a viewer is told to have lost, who reads from time to time."""
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    # The server's buffer for it is a multiple of this.
    slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    slow.setblocking(False)
    loop = asyncio.get_running_loop()
    with slow:
        await loop.sock_connect(slow, ("127.0.0.1", server.port))
        await loop.sock_sendall(
            slow, b"GET /live/frames HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        async with session.get("/live/frames") as other:
            missed = 0
            while missed < MISSED_BYTES:
                missed += len(await other.content.readuntil(b"\n\n"))
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        text = await loop.sock_recv(slow, 1 << 16)
        assert text.startswith(b"HTTP/1.1 200")
        while (told := re.search(rb"event: lost\ndata: (\d+)\n", text)) is None:
            # What tells of it may be divided.
            text = text[-64:] + await loop.sock_recv(slow, 1 << 16)
        return int(told[1])


async def test_every_api_server_shows_all_engines() -> None:
    """
    Whichever of several API servers a viewer reaches, it has the same frames, those of
    the observer process.
    """
    with serving(*OPTIONS, "--api-server-count", "2") as server:
        assert len(api_servers_of(server.process.pid)) == 2
        async with clients(server) as session:
            await session.post(
                "/v1/completions", json=BODY, headers={"X-Request-Id": NAME}
            )
            seen = await asyncio.gather(*(frames_of(session, 2) for _ in range(4)))
            told = [await window(server) for _ in range(4)]
        engine_pid = server.engine_pid

    assert num_events(seen) == num_times(seen)
    for frame in told:
        (engine,) = frame["engines"]
        assert engine["pid"] == engine_pid
        assert [row["client"] for row in engine["rows"]] == [NAME] * 100
        assert "live" in [lane["name"] for lane in frame["lanes"]]


async def window(server: Server) -> dict[str, Any]:
    """What a new connection is told of the last minute."""
    async with clients(server) as session:
        answer = await session.get("/live/moment")
        found: dict[str, Any] = await answer.json()
        return found
