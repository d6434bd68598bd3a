"""A server between a crowd that saturates it and one hostile client of each kind."""

import asyncio
import random
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from hookline_faults.fuzzing.aftermath import Aftermath, aftermath
from hookline_faults.fuzzing.socket_campaign import engine_sockets
from hookline_faults.fuzzing.watching import Watched, watched
from hookline_faults.hostile.clients import CLIENTS, keep_on
from hookline_faults.hostile.crowd import Crowd, make_questions
from hookline_faults.hostile.memory import MemoryCurve
from hookline_faults.hostile.target import Target
from hookline_testing.server_process import Server

SAMPLE_SECONDS = 10.0
_NUM_QUESTIONS = 80
_CLOSE_SECONDS = 1.0
"""Time for connections to close."""


@dataclass(slots=True)
class Soak:
    """What a soak saw.

    Attributes:
        crowd: The well-behaved clients.
        target: What the hostile clients did.
        memory: The processes' memory.
        watched: What the canary saw.
        after: The server afterwards.
    """

    crowd: Crowd
    target: Target
    memory: MemoryCurve = field(default_factory=MemoryCurve)
    watched: Watched = field(default_factory=Watched)
    after: Aftermath = field(default_factory=Aftermath)

    def lines(self) -> Iterable[str]:
        """Yields the report."""
        yield "| client | outcomes |"
        yield "|---|---|"
        yield f"| crowd | {_shown(self.crowd.counts)} |"
        for kind, counts in self.target.counts.items():
            yield f"| {kind} | {_shown(counts)} |"
        yield ""
        yield f"longest whole answer of the crowd: {self.crowd.longest_seconds:.1f} s"
        yield f"longest waits of the canary: {self.watched.worst_seconds}"
        yield f"less the machine's own: {self.watched.worst_own_seconds:.2f} s"
        yield f"left over: {self.after.leaked}, faults: {self.after.faults}"
        yield f"log: {self.after.log_bytes} bytes"
        yield ""
        yield self.memory.csv()


def soak(server: Server, key: str, *, seconds: float, at_once: int, seed: int) -> Soak:
    """Soaks a server that requires the key; returns what was seen."""
    source = random.Random(seed)  # noqa: S311 - to be repeated
    sockets = tuple(engine_sockets(server).values())
    made = Soak(
        Crowd(
            f"http://127.0.0.1:{server.port}",
            key,
            make_questions(_NUM_QUESTIONS, source),
            source,
        ),
        Target("127.0.0.1", server.port, key, sockets),
    )
    asyncio.run(made.crowd.learn())
    with watched(server, key) as made.watched:
        asyncio.run(_soaked(made, server, seconds, at_once))
    made.after = aftermath(server, {"Authorization": f"Bearer {key}"})
    return made


async def _soaked(made: Soak, server: Server, seconds: float, at_once: int) -> None:
    source = made.crowd.source
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
            for _ in range(at_once):
                tasks.create_task(made.crowd.keep_asking())
            tasks.create_task(made.crowd.scrape())
            for kind in CLIENTS:
                own = random.Random(source.random())  # noqa: S311 - to be repeated
                tasks.create_task(keep_on(kind, made.target, own))
            tasks.create_task(made.memory.keep_sampling(server, SAMPLE_SECONDS))
    await asyncio.sleep(_CLOSE_SECONDS)


def _shown(counts: dict[str, int]) -> str:
    found = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {count}" for name, count in found)
