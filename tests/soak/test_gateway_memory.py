"""A gateway keeps its memory and its numbers for as long as streams come.

`make soak ARGS='tests/soak/test_gateway_memory.py -s --soak-minutes 60'`
"""

import asyncio
import random
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import pytest

from hookline_faults.hostile.memory import MemoryCurve
from hookline_testing.server_process import Server

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from gateway_load import Client, Pace, Target, Times, Upstream, connected

STREAMS_A_SECOND = 50
PACE = Pace(tokens=8, seconds=0.02)
ONE_LEAVES_OF = 20
ONE_CONNECTION_ENDS_OF = 10
IDLE_SECONDS = 5.0
"""How long a client keeps a connection; a gateway closes it after longer."""
SAMPLE_SECONDS = 10.0
SETTLED_SECONDS = 300.0
"""Memory may still grow before."""
ALLOWED_MB_A_MINUTE = 0.02
"""A leak of 12 bytes a request would show."""
COUNTED: Sequence[tuple[str, dict[str, str]]] = (
    ("requests_received_total", {}),
    ("requests_finished_total", {"reason": "stop"}),
    ("requests_finished_total", {"reason": "abort"}),
    ("generation_tokens_total", {}),
)


class Crowd:
    """Clients of a gateway, who begin streams at an even rate.

    Attributes:
        ended: Number of whole streams.
        left: Number of streams that their clients left.
        errors: What else came of others.
    """

    def __init__(self, port: int) -> None:
        self.ended = self.left = 0
        self.errors: list[str] = []
        self._target = Target(port)
        self._idle: deque[tuple[float, Client]] = deque()
        self._source = random.Random(7)  # noqa: S311 - to be repeated

    async def ask(self, seconds: float) -> None:
        """Begins streams for so long, and waits for their ends."""
        until, due = time.monotonic() + seconds, time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            while due < until:
                tasks.create_task(self._stream())
                due += 1 / STREAMS_A_SECOND
                await asyncio.sleep(max(0.0, due - time.monotonic()))
        for _, each in self._idle:
            each.close()

    async def _stream(self) -> None:
        client = self._kept() or await connected(self._target, Times())
        if self._source.randrange(ONE_LEAVES_OF) == 0:
            asking = asyncio.ensure_future(client.ask(is_stream=True))
            await asyncio.sleep(PACE.seconds * PACE.tokens / 2)
            client.close()
            await asyncio.gather(asking, return_exceptions=True)
            self.left += 1
            return
        try:
            await client.ask(is_stream=True)
        except (ConnectionError, ValueError) as error:
            self.errors.append(str(error))
            client.close()
            return
        self.ended += 1
        if self._source.randrange(ONE_CONNECTION_ENDS_OF) == 0:
            client.close()
        else:
            self._idle.append((time.monotonic(), client))

    def _kept(self) -> Client | None:
        oldest = time.monotonic() - IDLE_SECONDS
        while self._idle and self._idle[0][0] < oldest:
            self._idle.popleft()[1].close()
        return self._idle.pop()[1] if self._idle else None


@contextmanager
def gateway(upstream: str, log: Path) -> Iterator[Server]:
    """Runs a gateway as a process of its own."""
    command = (sys.executable, "-m", "hookline_server", "gateway", upstream)
    with (
        log.open("w") as file,
        subprocess.Popen(
            (*command, "--port", "0", "--log-level", "warning"),
            stdout=subprocess.DEVNULL,
            stderr=file,
            text=True,
        ) as process,
    ):
        try:
            server = Server(process, log)
            server.wait_until_listening()
            yield server
        finally:
            process.terminate()


async def keep_sampling(server: Server, curve: MemoryCurve) -> None:
    """Notes and prints the gateway's memory until it is cancelled."""
    begun = time.monotonic()
    while True:
        sample, at = {"gateway": server.resident_mb()}, time.monotonic() - begun
        curve.samples.append((at, sample))
        sys.stdout.write(f"{at:.0f} s: {sample['gateway']:.1f} MB\n")
        sys.stdout.flush()
        await asyncio.sleep(SAMPLE_SECONDS)


Soaked = tuple[MemoryCurve, Crowd, list[float]]


async def soak(log: Path, seconds: float) -> Soaked:
    """Streams through a gateway; returns what it took, and what it has counted."""
    curve, loop = MemoryCurve(), asyncio.get_running_loop()
    upstream = await loop.create_server(
        lambda: Upstream(PACE), "127.0.0.1", 0, backlog=2048
    )
    port = upstream.sockets[0].getsockname()[1]
    with gateway(f"http://127.0.0.1:{port}", log) as server:
        crowd = Crowd(server.port)
        sampling = asyncio.ensure_future(keep_sampling(server, curve))
        await crowd.ask(seconds)
        await asyncio.sleep(2.0)  # the last ends are told in batches
        sampling.cancel()
        counted = [
            await asyncio.to_thread(server.metric, f"hookline_{name}", **labels)
            for name, labels in COUNTED
        ]
    upstream.close()
    return curve, crowd, counted


def growth(curve: MemoryCurve) -> float:
    """Returns the usual growth in MB a minute, whatever one burst of streams took."""
    points = [
        (at / 60, mb["gateway"]) for at, mb in curve.samples if at >= SETTLED_SECONDS
    ]
    return statistics.median(
        (late - early) / (after - before)
        for (before, early), (after, late) in combinations(points, 2)
    )


@pytest.mark.soak
def test_memory_is_level_and_numbers_are_true(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """
    Streams end, clients leave and connections come and go: nothing of them stays, and
    what the gateway counts is what the clients saw.
    """
    minutes = float(request.config.getoption("--soak-minutes", 30.0))
    csv = request.config.getoption("--soak-csv", None)
    least = 2 * SETTLED_SECONDS / 60
    assert minutes > least, f"the soak takes more than {least:g} minutes"

    curve, crowd, counted = asyncio.run(soak(tmp_path / "log", minutes * 60))

    slope = growth(curve)
    sys.stdout.write(f"{crowd.ended} ended, {crowd.left} left, {slope:.4f} MB/min\n")
    sys.stdout.write(f"{counted}\n{curve.csv()}")
    if csv is not None:
        Path(csv).write_text(curve.csv(), "utf-8")
    assert crowd.errors == []
    ended, left = crowd.ended, crowd.left
    *requests, tokens = counted
    assert requests == [ended + left, ended, left]
    # A client may leave when its answer was complete, and its usage known.
    assert ended <= tokens / PACE.tokens <= ended + left
    assert slope < ALLOWED_MB_A_MINUTE
