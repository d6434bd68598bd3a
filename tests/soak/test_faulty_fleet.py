"""Two prefill and two decode instances, a route, and all that may happen to them."""

import asyncio
import dataclasses
import json
import os
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hookline_faults.fleet import Fleet, Server, free_port
from hookline_faults.spoilt_line import SpoiltLine, Weather
from hookline_faults.storm import (
    DEADLINE_SECONDS,
    HEAD,
    LEAVE,
    Asked,
    Faults,
    Row,
    blow,
)
from hookline_pd_proxy.pools import Role
from hookline_testing.plugin_site import PluginSite

PREFILL_SECONDS = 6.0
LOAD_SECONDS = 3.0
SAVE_SECONDS = 5.0
PEER_SECONDS = 1.0

NUM_PROMPTS = 250
LINE_HOST = "127.0.0.2"
"""Where producers say that they are: the lines listen there, and they at 127.0.0.1."""

SERVE = [
    *("--model", "demo", "--dtype", "float32", "--num-kv-blocks", "384"),
    *("--threads", "1", "--max-num-seqs", "16", "--heartbeat-seconds", "0.2"),
    *("--enable-reset-prefix-cache", "--log-level", "warning"),
    *("--stat-logger", "prometheus"),
]


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    replace(path, bytes(data))


def replace(path: Path, data: bytes) -> None:
    """At once: who reads it sees the one or the other."""
    beside = path.with_suffix(".new")
    beside.write_bytes(data)
    beside.rename(path)


async def leave(fleet: Fleet) -> None:
    """Done by the client itself."""


def put_foreign(fleet: Fleet) -> Coroutine[None, None, None]:
    """Files of the same model with another dtype, under the names of ours."""
    [foreign, *_] = fleet.folder.glob("foreign/*/*/*.safetensors")
    return fleet.damage(lambda path: replace(path, foreign.read_bytes()))


PEER = {"load refused", "load peer", "load deadline", "load gone", "load aborted"}
P2P: Faults = {
    LEAVE: (leave, set()),
    f"{LEAVE}, slow lines": (lambda f: f.slow_lines(1.0, 2.0), {"load aborted"}),
    "connections cut": (lambda f: f.weather(Weather.CUT, 0.0, 1.5), set()),
    "partition, heals": (lambda f: f.weather(Weather.HELD, 0.2, 2.0), {"load peer"}),
    "slow line": (lambda f: f.weather(Weather.SLOW, 2.0, 4.0), PEER),
    "flipped bits": (lambda f: f.weather(Weather.FLIPPED, 1.0, 2.0), {"load checksum"}),
    "lost bytes": (lambda f: f.weather(Weather.LOST, 1.0, 2.0), PEER),
    "prefill killed": (lambda f: f.kill(f.prefill), PEER),
    "decode killed": (lambda f: f.kill(f.decode), set()),
}
UNPUNCTUAL: Faults = {
    "reports twice": (lambda f: f.switch("twice", 1.0, 2.0), {"late reports"}),
    "reports late": (lambda f: f.switch("late", 0.5, 1.0), {"late reports"}),
}
LITTLE_ROOM: Faults = {
    "slow lines, few blocks": (lambda f: f.slow_lines(1.0, 2.0), {"preemptions"}),
}
STORAGE: Faults = {
    LEAVE: (leave, set()),
    "files truncated": (lambda f: f.damage(truncate), {"load truncated"}),
    "files flipped": (lambda f: f.damage(flip), {"load corrupt"}),
    "files removed": (lambda f: f.damage(Path.unlink), set()),
    "foreign files": (put_foreign, {"load foreign"}),
    "full disk": (Fleet.fill_disk, {"save raised", "save OSError"}),
    "prefill killed": (lambda f: f.kill(f.prefill), set()),
    "decode killed": (lambda f: f.kill(f.decode), set()),
}


def transfer(name: str, role: Role, options: dict[str, object]) -> list[str]:
    config = {
        "kv_connector": name,
        "kv_role": "kv_producer" if role is Role.PREFILL else "kv_consumer",
        "kv_load_timeout_seconds": LOAD_SECONDS,
        "kv_save_timeout_seconds": SAVE_SECONDS,
        "kv_connector_extra_config": options,
    }
    return [*SERVE, "--kv-transfer-config", json.dumps(config)]


def routed(prefill: Sequence[Server], decode: Sequence[Server]) -> Server:
    return Server(
        Role.DECODE,
        "route",
        [
            *("--prefill", ",".join(each.url for each in prefill)),
            *("--decode", ",".join(each.url for each in decode)),
            *("--prefill-timeout", str(PREFILL_SECONDS)),
            *("--request-timeout", str(DEADLINE_SECONDS)),
            *("--poll-seconds", "0.2", "--log-level", "error"),
        ],
    )


@asynccontextmanager
async def running(fleet: Fleet) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for server in [*fleet.instances, fleet.route]:
            stack.push_async_callback(server.end)
            await server.start(fleet.session)
        yield


@asynccontextmanager
async def p2p_fleet(
    session: aiohttp.ClientSession,
    source: random.Random,
    *,
    folder: Path,
    decoding: Sequence[str] = (),
    unpunctual: bool = False,
) -> AsyncIterator[Fleet]:
    base: dict[str, object] = {"peer_timeout_seconds": PEER_SECONDS}
    async with AsyncExitStack() as stack:
        prefill, lines = [], []
        for _ in range(2):
            port = free_port()
            options = {**base, "port": port, "advertised_host": LINE_HOST}
            arguments = transfer("p2p", Role.PREFILL, options)
            prefill.append(Server(Role.PREFILL, "serve", arguments))
            line = SpoiltLine(("127.0.0.1", port), source, noise=0.1)
            await stack.enter_async_context(line.listening(LINE_HOST, port))
            lines.append(line)
        name = "p2p"
        if unpunctual:
            name, base = "unpunctual", {**base, "switches": str(folder)}
        arguments = [*transfer(name, Role.DECODE, base), *decoding]
        decode = [Server(Role.DECODE, "serve", arguments) for _ in range(2)]
        route = routed(prefill, decode)
        fleet = Fleet(session, prefill, decode, route, lines, folder, source)
        await stack.enter_async_context(running(fleet))
        yield fleet


@asynccontextmanager
async def storage_fleet(
    session: aiohttp.ClientSession, source: random.Random, *, folder: Path
) -> AsyncIterator[Fleet]:
    options: dict[str, object] = {"shared_storage_path": str(folder / "own")}
    prefill, decode = (
        [Server(role, "serve", transfer("shared_storage", role, options)) for _ in "ab"]
        for role in (Role.PREFILL, Role.DECODE)
    )
    route = routed(prefill, decode)
    fleet = Fleet(session, prefill, decode, route, [], folder, source)
    async with running(fleet):
        yield fleet


async def right_answers(text: str) -> list[Asked]:
    """Pieces of a program, and how one server without a connector goes on from them."""
    source = random.Random(3)  # noqa: S311 - a test
    server = Server(Role.DECODE, "serve", SERVE)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        stack.push_async_callback(server.end)
        await server.start(session)

        async def post(path: str, body: dict[str, object]) -> dict[str, Any]:
            async with session.post(server.url + path, json=body) as response:
                assert response.status == 200
                return dict(await response.json())

        async def answered(asked: Asked) -> Asked:
            body = await post("/v1/completions", asked.body())
            return dataclasses.replace(asked, right=body["choices"][0]["text"])

        tokens = (await post("/tokenize", {"prompt": text}))["tokens"]
        found: list[Asked] = []
        for _ in range(NUM_PROMPTS):
            length, most = source.randint(40, 400), source.randint(1, 24)
            start = source.randrange(len(tokens) - length)
            found.append(await answered(Asked(tokens[start : start + length], most)))
        return found


@pytest.fixture(scope="module")
def asked() -> list[Asked]:
    return asyncio.run(right_answers(Path(random.__file__).read_text("utf-8")))


async def store_foreign(folder: Path, asked: Asked) -> None:
    """Has an engine with another dtype store a prompt."""
    options: dict[str, object] = {"shared_storage_path": str(folder / "foreign")}
    arguments = transfer("shared_storage", Role.PREFILL, options)
    server = Server(Role.PREFILL, "serve", [*arguments, "--dtype", "bfloat16"])
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        stack.push_async_callback(server.end)
        await server.start(session)
        url = f"{server.url}/v1/completions"
        async with session.post(url, json=asked.body()) as response:
            assert response.status == 200


Blown = tuple[list[Row], list[str]]
"""Rows of the table, and what was not as it should be."""
Make = Callable[
    [aiohttp.ClientSession, random.Random], AbstractAsyncContextManager[Fleet]
]


async def blown(
    make: Make, asked: list[Asked], faults: Faults, of_each: int, of_all: int
) -> Blown:
    """Runs a storm on a fleet and returns its results."""
    source = random.Random(7)  # noqa: S311 - a test
    async with aiohttp.ClientSession() as session, make(session, source) as fleet:
        return await blow(fleet, asked, faults, of_each, of_all)


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Callable[[Blown], None]:
    """Shows what came of a storm, and wants nothing wrong, lost or left."""

    def check(found: Blown) -> None:
        rows, wrong = found
        with capsys.disabled():
            print("\n".join(["", HEAD, *map(str, rows), *wrong]))  # noqa: T201
        assert not wrong
        assert [row.outcomes.total() for row in rows] == [row.requests for row in rows]
        assert all(row.loaded > 0 for row in rows)
        assert all(row.leaked == 0 for row in rows)
        assert all(row.longest < DEADLINE_SECONDS for row in rows)

    return check


@pytest.mark.soak
async def test_peers(
    asked: list[Asked], tmp_path: Path, check: Callable[[Blown], None]
) -> None:
    """1000 requests over TCP: all end, none with a wrong token, and nothing is left."""
    fleet = partial(p2p_fleet, folder=tmp_path)

    check(await blown(fleet, asked, P2P, 60, 520))


@pytest.mark.soak
async def test_unpunctual_reports(
    asked: list[Asked],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[[Blown], None],
) -> None:
    """A connector reports loads twice or too late."""
    (site := tmp_path / "site").mkdir()
    text = Path(__file__).with_name("unpunctual.py").read_text("utf-8")
    PluginSite(site).install("unpunctual", text, group="hookline.connectors")
    monkeypatch.setenv("PYTHONPATH", str(site))
    fleet = partial(p2p_fleet, folder=tmp_path, unpunctual=True)

    check(await blown(fleet, asked, UNPUNCTUAL, 60, 60))


@pytest.mark.soak
async def test_little_room(
    asked: list[Asked], tmp_path: Path, check: Callable[[Blown], None]
) -> None:
    """Requests are preempted while others load."""
    decoding = ("--num-kv-blocks", "32", "--max-model-len", "448")
    fleet = partial(p2p_fleet, folder=tmp_path, decoding=decoding)

    check(await blown(fleet, asked, LITTLE_ROOM, 60, 60))


@pytest.mark.soak
async def test_storage(
    asked: list[Asked], tmp_path: Path, check: Callable[[Blown], None]
) -> None:
    """400 requests through files."""
    await store_foreign(tmp_path, asked[0])
    fleet = partial(storage_fleet, folder=tmp_path)

    check(await blown(fleet, asked[:30], STORAGE, 40, 120))
