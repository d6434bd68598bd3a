"""Two prefill and two decode instances, a route, and all that may happen to them."""

import asyncio
import dataclasses
import json
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hookline.kv_transfer.guard import BREAKER_FAILURES, BREAKER_SECONDS
from hookline.testing.spoilt_line import SpoiltLine, Weather
from hookline_server.route.fleet import LOADED, Fleet, Server, free_port
from hookline_server.route.instance import Role

AT_ONCE = 16
A_SECOND = 20.0
"""Requests that come, if there is room."""
SHARE = 0.05
"""Of the requests, each with a fault that begins with it."""

DEADLINE_SECONDS = 40.0
"""Of the route, for a whole request."""
PREFILL_SECONDS = 6.0
LOAD_SECONDS = 3.0
SAVE_SECONDS = 5.0
PEER_SECONDS = 1.0
REST_SECONDS = 20.0

NUM_PROMPTS = 250
LINE_HOST = "127.0.0.2"
"""Where producers say that they are: the lines listen there, and they at 127.0.0.1."""

SERVE = [
    *("--model", "demo", "--dtype", "float32", "--num-kv-blocks", "384"),
    *("--threads", "1", "--max-num-seqs", "16", "--heartbeat-seconds", "0.2"),
    *("--enable-reset-prefix-cache", "--log-level", "warning"),
    *("--stat-logger", "prometheus"),
]


class Outcome(StrEnum):
    RIGHT = "right"
    ERROR = "error"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and what one plain server answers to it."""

    tokens: list[int]
    max_tokens: int
    right: str = ""

    def body(self, *, stream: bool = False) -> dict[str, object]:
        return {
            "model": "demo",
            "prompt": self.tokens,
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "stream": stream,
        }


@dataclass(slots=True)
class Row:
    """Of the table."""

    fault: str
    requests: int
    begun: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    longest: float = 0.0
    loaded: int = 0
    leaked: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def opens_breaker(self) -> bool:
        """Whether a connector may not be asked for loads now."""
        failed = sum(n for why, n in self.failures.items() if why.startswith("load"))
        return failed >= BREAKER_FAILURES

    def note(self, news: Mapping[str, float]) -> None:
        """What an instance has counted."""
        for name, count in news.items():
            if name == LOADED:
                self.loaded += int(count)
            else:
                self.failures[name] += int(count)

    def __str__(self) -> str:
        counts = " | ".join(str(self.outcomes[each]) for each in Outcome)
        reasons = ", ".join(f"{k} {v}" for k, v in sorted(self.failures.items()))
        return (
            f"| {self.fault} | {self.begun.total()} | {self.requests} | {counts} "
            f"| {self.longest:.1f} | {self.loaded} | {self.leaked:g} | {reasons} |"
        )


HEAD = (
    "| fault | times | requests | right | error | client left | longest, s "
    "| tokens loaded | leaked blocks | counted |\n" + "|---" * 10 + "|"
)


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


Fault = Callable[[Fleet], Coroutine[None, None, None]]
Faults = dict[str, tuple[Fault, set[str]]]
"""By name: what happens, and reasons of which one must be counted then."""
LEAVE = "client leaves"


async def leave(fleet: Fleet) -> None:
    """Done by the client itself."""


def put_foreign(fleet: Fleet) -> Coroutine[None, None, None]:
    """Files of the same model with another dtype, under the names of ours."""
    [foreign, *_] = fleet.folder.glob("foreign/*/*/*.safetensors")
    return fleet.damage(lambda path: replace(path, foreign.read_bytes()))


PEER = {"load refused", "load peer", "load deadline", "load gone", "load aborted"}
P2P: Faults = {
    LEAVE: (leave, set()),
    "connections cut": (lambda f: f.weather(Weather.CUT, 0.0, 1.5), set()),
    "partition, heals": (lambda f: f.weather(Weather.HELD, 0.2, 2.5), {"load peer"}),
    "slow line": (lambda f: f.weather(Weather.SLOW, 2.0, 4.0), PEER),
    "flipped bits": (lambda f: f.weather(Weather.FLIPPED, 1.0, 2.0), {"load checksum"}),
    "lost bytes": (lambda f: f.weather(Weather.LOST, 1.0, 2.0), PEER),
    "prefill killed": (lambda f: f.kill(f.prefill), PEER),
    "decode killed": (lambda f: f.kill(f.decode), set()),
}
STORAGE: Faults = {
    LEAVE: (leave, set()),
    "files truncated": (lambda f: f.damage(truncate), {"load truncated"}),
    "files flipped": (lambda f: f.damage(flip), {"load corrupt"}),
    "files removed": (lambda f: f.damage(Path.unlink), set()),
    "foreign files": (put_foreign, {"load foreign"}),
    "full disk": (Fleet.fill_disk, {"save raised", "save OSError"}),
    "prefill killed": (lambda f: f.kill(f.prefill), set()),
}


class Storm:
    """Requests to a fleet, and faults."""

    def __init__(self, fleet: Fleet, asked: Sequence[Asked]) -> None:
        self.fleet = fleet
        self.asked = asked
        self.source = fleet.source
        self.wrong: list[str] = []

    async def round(self, name: str, faults: Faults, count: int) -> Row:
        """So many requests, and one fault for each twentieth; then all come to rest."""
        row = Row(name, count)
        struck = self.source.sample(range(count), max(2, round(count * SHARE)))
        places = asyncio.Semaphore(AT_ONCE)
        under_way: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                await places.acquire()
                await asyncio.sleep(self.source.expovariate(A_SECOND))
                fault = ""
                if number in struck:
                    fault = self.source.choice(sorted(faults))
                    row.begun[fault] += 1
                    if fault in under_way:  # one after the other of each kind
                        await under_way[fault]
                    act = faults[fault][0]
                    under_way[fault] = tasks.create_task(act(self.fleet))
                task = tasks.create_task(self.ask(row, leaves=fault == LEAVE))
                task.add_done_callback(lambda _: places.release())
        await self.come_to_rest(row)
        if row.opens_breaker:
            await asyncio.sleep(BREAKER_SECONDS)
        return row

    async def come_to_rest(self, row: Row) -> None:
        for server in self.fleet.instances:
            state = await server.rest(self.fleet.session, REST_SECONDS)
            row.leaked += state.leaked_blocks
            if state.busy:
                self.wrong.append(f"{row.fault}: {server.url} still has {state.busy}")
            row.note(server.news(state))

    async def ask(self, row: Row, *, leaves: bool) -> None:
        asked = self.source.choice(self.asked)
        stream = leaves or self.source.random() < 0.5
        began_at = time.monotonic()
        text, failure = "", ""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS + 5):
                answer = self.stream if stream else self.whole
                text, failure = await answer(asked, leaves=leaves)
        except (aiohttp.ClientError, TimeoutError) as error:
            failure = f"{type(error).__name__}: {error}"
        took = time.monotonic() - began_at
        row.longest = max(row.longest, took)
        row.outcomes[self.outcome(row, asked, text, failure, began_at)] += 1

    def outcome(
        self, row: Row, asked: Asked, text: str, failure: str, began_at: float
    ) -> Outcome:
        """Notes what is not as it should be."""
        is_right = asked.right.startswith(text) if failure else text == asked.right
        if not is_right:
            self.wrong.append(f"{row.fault}: {text!r} for {asked.right!r} ({failure})")
        if failure == LEAVE:
            return Outcome.LEFT
        if failure and not any(at > began_at for at in self.fleet.decode_killed_at):
            self.wrong.append(f"{row.fault}: {failure}")
        return Outcome.ERROR if failure else Outcome.RIGHT

    async def whole(self, asked: Asked, *, leaves: bool) -> tuple[str, str]:
        del leaves
        url = f"{self.fleet.route.url}/v1/completions"
        async with self.fleet.session.post(url, json=asked.body()) as response:
            if response.status != 200:
                return "", await failure_of(response)
            return str((await response.json())["choices"][0]["text"]), ""

    async def stream(self, asked: Asked, *, leaves: bool) -> tuple[str, str]:
        """What came of the text, and why it did not all come."""
        text = ""
        url = f"{self.fleet.route.url}/v1/completions"
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(self.source.uniform(0, 0.1) if leaves else None),
                self.fleet.session.post(url, json=asked.body(stream=True)) as response,
            ):
                if response.status != 200:
                    return "", await failure_of(response)
                is_whole = False
                async for line in response.content:
                    if line.startswith(b"data: [DONE]"):
                        is_whole = True
                    elif line.startswith(b"data: "):
                        event = json.loads(line.removeprefix(b"data: "))
                        if "error" in event:
                            return text, str(event["error"]["message"])
                        text += event["choices"][0]["text"]
                return text, "" if is_whole else "the stream broke off"
        return text, LEAVE


async def failure_of(response: aiohttp.ClientResponse) -> str:
    """What an answer that is no 200 must say."""
    error = (await response.json())["error"]
    return f"{response.status} {error['code']}: {error['message']}"


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
    session: aiohttp.ClientSession, folder: Path, source: random.Random
) -> AsyncIterator[Fleet]:
    base: dict[str, object] = {"peer_timeout_seconds": PEER_SECONDS}
    async with AsyncExitStack() as stack:
        prefill, lines = [], []
        for _ in range(2):
            port = free_port()
            options = {**base, "port": port, "advertised_host": LINE_HOST}
            arguments = transfer("p2p", Role.PREFILL, options)
            prefill.append(Server(Role.PREFILL, "serve", arguments))
            line = SpoiltLine(("127.0.0.1", port), source)
            await stack.enter_async_context(line.listening(LINE_HOST, port))
            lines.append(line)
        arguments = transfer("p2p", Role.DECODE, base)
        decode = [Server(Role.DECODE, "serve", arguments) for _ in range(2)]
        route = routed(prefill, decode)
        fleet = Fleet(session, prefill, decode, route, lines, folder, source)
        await stack.enter_async_context(running(fleet))
        yield fleet


@asynccontextmanager
async def storage_fleet(
    session: aiohttp.ClientSession, folder: Path, source: random.Random
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


async def blow(
    fleet: Fleet,
    asked: Sequence[Asked],
    faults: Faults,
    of_each: int,
    of_all: int,
) -> tuple[list[Row], list[str]]:
    """One fault after another, then all at once; and what was not as it should be."""
    storm, rows = Storm(fleet, asked), []
    for name, (_, expected) in faults.items():
        row = await storm.round(name, {name: faults[name]}, of_each)
        rows.append(row)
        if expected and not expected & set(row.failures):
            storm.wrong.append(f"{name}: not counted: {dict(row.failures)}")
    rows.append(await storm.round("all of them", faults, of_all))
    return rows, storm.wrong


def check(rows: Sequence[Row], wrong: Sequence[str]) -> None:
    print("\n".join(["", HEAD, *map(str, rows), *wrong]))  # noqa: T201
    assert not wrong
    assert [row.outcomes.total() for row in rows] == [row.requests for row in rows]
    assert all(row.loaded > 0 for row in rows)
    assert all(row.leaked == 0 for row in rows)
    assert all(row.longest < DEADLINE_SECONDS for row in rows)


@pytest.mark.soak
async def test_peers(
    asked: list[Asked], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1000 requests over TCP: all end, none with a wrong token, and nothing is left."""
    source = random.Random(7)  # noqa: S311 - a test
    async with (
        aiohttp.ClientSession() as session,
        p2p_fleet(session, tmp_path, source) as fleet,
    ):
        rows, wrong = await blow(fleet, asked, P2P, 75, 400)

    with capsys.disabled():
        check(rows, wrong)


@pytest.mark.soak
async def test_storage(
    asked: list[Asked], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """400 requests through files."""
    source = random.Random(7)  # noqa: S311 - a test
    await store_foreign(tmp_path, asked[0])
    async with (
        aiohttp.ClientSession() as session,
        storage_fleet(session, tmp_path, source) as fleet,
    ):
        rows, wrong = await blow(fleet, asked[:60], STORAGE, 40, 120)

    with capsys.disabled():
        check(rows, wrong)
