"""Kills the processes of a server while clients use it, and reports how it went."""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from hookline_faults.fire.clients import Clients, totals
from hookline_faults.fire.process_sizes import Growth, ProcessSizes, memory_table
from hookline_faults.fuzzing.aftermath import Aftermath, aftermath
from hookline_faults.hostile.crowd import make_questions
from hookline_testing.server_process import Server, api_servers_of, engines_of

AT_ONCE = 24
NUM_QUESTIONS = 40
SAMPLE_SECONDS = 5.0
ENGINE_SECONDS = 40.0
"""Time between two kills of an engine; each third one kills both at once."""
SERVER_SECONDS = 150.0
"""Time between two kills of an API server: it may be replaced ten times an hour."""
SETTLING_SECONDS = 45.0
"""Time after the last kill, in which everything is replaced."""
WARMING_SHARE = 1 / 3
"""Part of the second half in which new processes may still grow."""


@dataclass(slots=True)
class Fire:
    """What was done to a server, and what came of it.

    Attributes:
        clients: Its clients.
        kills: What was killed, and how often.
        before: Memory while processes were killed.
        after: Memory from then on, without the time in which new processes grow.
        aftermath: The server afterwards.
        books: Requests received, finished by reason, and moved, as it counts them.
    """

    clients: Clients
    kills: Counter[str] = field(default_factory=Counter)
    before: ProcessSizes = field(default_factory=ProcessSizes)
    after: ProcessSizes = field(default_factory=ProcessSizes)
    aftermath: Aftermath = field(default_factory=Aftermath)
    books: dict[str, float] = field(default_factory=dict)

    @property
    def faults(self) -> list[str]:
        """Everything that is not as it should be."""
        found = [*self.clients.wrong, *self.aftermath.faults]
        found += [f"left over: {name} {n}" for name, n in self.aftermath.leaked.items()]
        found += [f"{each.name} grows" for each in self._growths if not each.is_flat]
        return [*found, *self._wrong_books()]

    @property
    def _growths(self) -> Sequence[Growth]:
        return self.after.growths()

    def _wrong_books(self) -> Iterator[str]:
        counts, books = self.clients.counts, self.books
        served = books.get("stop", 0) + books.get("length", 0)
        least, unknown = counts["right"], counts["cut"] + counts["left"]
        if not least <= served <= least + unknown:
            yield f"{served:.0f} requests were served, and clients got {least}"
        # No engine has received what a server refuses. Nobody tells what ended in the
        # last moment of an engine and a server that are killed together.
        ended = books["finished"] - books.get("rejected", 0)
        if not 0 <= books["received"] - ended <= counts["cut"]:
            yield f"received {books['received']:.0f}, ended {ended:.0f}"

    def lines(self) -> Iterable[str]:
        """Yields the report."""
        yield "\n| clients' requests | |\n|---|---|"
        for name, number in sorted(self.clients.counts.items()):
            yield f"| {name} | {number} |"
        yield "\n| killed | times |\n|---|---|"
        for name, number in sorted(self.kills.items()):
            yield f"| {name} | {number} |"
        yield "\n| the server's books | |\n|---|---|"
        for name, value in sorted(self.books.items()):
            yield f"| {name} | {value:.0f} |"
        yield "\n| process | MB when warm | MB at the end | MB a minute | |"
        yield "|---|---|---|---|---|"
        yield from memory_table([*self._growths]).values()
        faults = self.faults
        yield f"\nfaults: {len(faults) or 'none'}"
        yield from faults


def burn(server: Server, *, seconds: float, seed: int) -> Fire:
    """Sets a server on fire for half of the time, and watches it for the other half."""
    source = random.Random(seed)  # noqa: S311 - to be repeated
    clients = Clients(
        f"http://127.0.0.1:{server.port}", make_questions(NUM_QUESTIONS, source), source
    )
    fire = Fire(clients)
    asyncio.run(_burn(fire, server, seconds))
    fire.aftermath = aftermath(server)
    fire.books = _books(server)
    return fire


async def _burn(fire: Fire, server: Server, seconds: float) -> None:
    clients, half = fire.clients, seconds / 2
    await clients.learn()
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(clients.keep_asking()) for _ in range(AT_ONCE)]
        asking.append(tasks.create_task(clients.keep_scraping()))
        kills = [
            tasks.create_task(_kill_engines(fire, server)),
            tasks.create_task(_kill_servers(fire, server)),
        ]
        await _watch(fire.before, server, half - SETTLING_SECONDS)
        for each in kills:
            each.cancel()
        await asyncio.sleep(SETTLING_SECONDS + half * WARMING_SHARE)
        await _watch(fire.after, server, half * (1 - WARMING_SHARE))
        for each in asking:
            each.cancel()


async def _watch(sizes: ProcessSizes, server: Server, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                sizes.take(server.process.pid)
                await asyncio.sleep(SAMPLE_SECONDS)


async def _kill_engines(fire: Fire, server: Server) -> None:
    source, number = fire.clients.source, 0
    while True:
        await asyncio.sleep(ENGINE_SECONDS)
        number += 1
        engines = list(engines_of(server.process.pid).values())
        are_all = number % 3 == 0
        for pid in engines if are_all else source.sample(engines, min(1, len(engines))):
            _kill(pid)
        fire.kills["all engines" if are_all else "an engine"] += 1


async def _kill_servers(fire: Fire, server: Server) -> None:
    while True:
        await asyncio.sleep(SERVER_SECONDS)
        if servers := api_servers_of(server.process.pid):
            _kill(fire.clients.source.choice(servers))
            fire.kills["an API server"] += 1


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _books(server: Server) -> dict[str, float]:
    _, page = server.get("/metrics")
    books: Counter[str] = Counter({"received": 0, "finished": 0})
    for series, value in totals(page).items():
        if series.startswith("hookline_requests_received_total"):
            books["received"] += int(value)
        elif series.startswith("hookline_requests_finished_total"):
            reason = series.partition('reason="')[2].partition('"')[0]
            books[reason] += int(value)
            books["finished"] += int(value)
    return {name: float(value) for name, value in books.items()}
