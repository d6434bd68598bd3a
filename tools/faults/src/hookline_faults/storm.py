"""Requests to a fleet under faults, and their outcomes, for tests."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

import aiohttp

from hookline_faults.fleet import LOADED, Fleet
from hookline_kv_transfer.guard import BREAKER_SECONDS

AT_ONCE = 16
A_SECOND = 20.0
"""Maximum number of concurrent requests."""
SHARE = 0.05
"""Fraction of the requests that start a fault."""

DEADLINE_SECONDS = 40.0
"""For a whole request."""
REST_SECONDS = 20.0
"""For instances, once all requests have ended."""

LEAVE = "client leaves"
"""Prefix of faults in which the client itself leaves."""


class Outcome(StrEnum):
    RIGHT = "right"
    ERROR = "error"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and the output of one plain server for it."""

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
    """One row of the table: a fault, and the outcomes of its requests."""

    fault: str
    requests: int
    begun: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    longest: float = 0.0
    loaded: int = 0
    leaked: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)

    def note(self, news: Mapping[str, float]) -> None:
        """Adds an instance's counts."""
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


Fault = Callable[[Fleet], Coroutine[None, None, None]]
Faults = dict[str, tuple[Fault, set[str]]]
"""Each fault's action by name, and failure reasons of which one must be counted."""


class Storm:
    """Sends requests to a fleet and injects faults."""

    def __init__(self, fleet: Fleet, asked: Sequence[Asked]) -> None:
        self.fleet = fleet
        self.asked = asked
        self.source = fleet.source
        self.wrong: list[str] = []

    async def round(self, name: str, faults: Faults, count: int) -> Row:
        """Sends requests, a twentieth of them with a fault; waits until all is idle."""
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
                    if fault in under_way:  # faults of a kind do not overlap
                        await under_way[fault]
                    act = faults[fault][0]
                    under_way[fault] = tasks.create_task(act(self.fleet))
                leaves = fault.startswith(LEAVE)
                task = tasks.create_task(self.ask(row, leaves=leaves))
                task.add_done_callback(lambda _: places.release())
        await self.come_to_rest(row)
        await self.fleet.clean()
        await self.thaw()
        return row

    async def thaw(self) -> None:
        """Waits until every decode instance loads KV again after many failures."""
        deadline = time.monotonic() + BREAKER_SECONDS + 15
        cold = list(self.fleet.decode)
        while cold:
            if time.monotonic() > deadline:
                self.wrong += [f"{each.url} loads no more" for each in cold]
                return
            await self.fleet.forget(cold)
            probes = [self.whole(self.source.choice(self.asked)) for _ in range(4)]
            await asyncio.gather(*probes)
            await asyncio.sleep(0.5)
            for server in list(cold):
                if LOADED in server.news(await server.state(self.fleet.session)):
                    cold.remove(server)

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
                if stream:
                    text, failure = await self.stream(asked, leaves=leaves)
                else:
                    text, failure = await self.whole(asked)
        except (aiohttp.ClientError, TimeoutError) as error:
            failure = f"{type(error).__name__}: {error}"
        took = time.monotonic() - began_at
        row.longest = max(row.longest, took)
        row.outcomes[self.outcome(row, asked, text, failure, began_at)] += 1

    def outcome(
        self, row: Row, asked: Asked, text: str, failure: str, began_at: float
    ) -> Outcome:
        """Returns a request's outcome; records violations in `wrong`."""
        is_right = asked.right.startswith(text) if failure else text == asked.right
        if not is_right:
            self.wrong.append(f"{row.fault}: {text!r} for {asked.right!r} ({failure})")
        if failure == LEAVE:
            return Outcome.LEFT
        if failure and not any(at > began_at for at in self.fleet.decode_killed_at):
            self.wrong.append(f"{row.fault}: {failure}")
        return Outcome.ERROR if failure else Outcome.RIGHT

    async def whole(self, asked: Asked) -> tuple[str, str]:
        url = f"{self.fleet.route.url}/v1/completions"
        async with self.fleet.session.post(url, json=asked.body()) as response:
            if response.status != 200:
                return "", await failure_of(response)
            return str((await response.json())["choices"][0]["text"]), ""

    async def stream(self, asked: Asked, *, leaves: bool) -> tuple[str, str]:
        """Returns the text received, and why it is incomplete, or ""."""
        text = ""
        url = f"{self.fleet.route.url}/v1/completions"
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(self.source.uniform(0, 0.3) if leaves else None),
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
    """Returns the status, code and message of an error response."""
    error = (await response.json())["error"]
    return f"{response.status} {error['code']}: {error['message']}"


async def blow(
    fleet: Fleet,
    asked: Sequence[Asked],
    faults: Faults,
    of_each: int,
    of_all: int,
) -> tuple[list[Row], list[str]]:
    """Runs each fault alone, then all together; returns the rows and violations."""
    storm, rows = Storm(fleet, asked), []
    for name, (_, expected) in faults.items():
        row = await storm.round(name, {name: faults[name]}, of_each)
        rows.append(row)
        if expected and not expected & set(row.failures):
            storm.wrong.append(f"{name}: not counted: {dict(row.failures)}")
    rows.append(await storm.round("all of them", faults, of_all))
    return rows, storm.wrong
