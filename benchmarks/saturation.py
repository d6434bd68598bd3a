"""Measures a served model's latency and saturation at rising load.

usage: python benchmarks/saturation.py [--seconds 40] [--rates 4 8 12 …]
                                       [OPTIONS OF `hookline serve`]

Starts `hookline serve`, measures its maximum rate of completed requests, and then sends
requests open-loop, in a Poisson stream, at fractions of that rate: arrivals never wait
for answers, as with real clients. Only the second half of each rate's time is measured,
when the load is steady. Between rates all requests are cancelled.

Prints a row per rate, then the rates at which each latency reaches twice and ten times
its value at the lowest rate, and the rate at which `hookline_saturation_ratio`
crosses 1. The client shares the machine with the server.
"""

import argparse
import asyncio
import math
import random
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from startup import free_port

SHARES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5)
FLOOD = 64
START_SECONDS = 120
LEAST_SECONDS = 4
FORGET_SECONDS = 60
"""Time until the saturation signal has forgotten the flood."""
GAUGE = re.compile(r"^hookline_saturation_ratio\{[^}]*\} (\S+)$", re.MULTILINE)
OPEN = re.compile(
    r"^hookline_requests_(?:running|waiting)\{[^}]*\} (\S+)$", re.MULTILINE
)
GENERATED = re.compile(
    r"^hookline_generation_tokens_total\{[^}]*\} (\S+)$", re.MULTILINE
)


@dataclass(slots=True)
class Window:
    """Measurements at one rate.

    Attributes:
        unanswered: Send times of the window's requests without a token so far.
        ttft: Seconds to the first token, of requests sent in the window.
        itl: Seconds between events of one answer, of events in the window.
        offered: Number of tokens requested in the window.
        served: Number of tokens generated in the window.
        saturation: Values of the gauge, once a second.
    """

    unanswered: set[float] = field(default_factory=set)
    ttft: list[float] = field(default_factory=list)
    itl: list[float] = field(default_factory=list)
    offered: int = 0
    served: float = 0.0
    saturation: list[float] = field(default_factory=list)

    def close(self, now: float) -> None:
        """Counts requests without a token by the time they have waited so far."""
        self.ttft += [now - sent for sent in self.unanswered]


@dataclass(frozen=True, slots=True)
class Row:
    """One rate's results; latencies in milliseconds."""

    rate: float
    offered: float
    served: float
    ttft_mean: float
    ttft_p99: float
    itl_p99: float
    saturation: float
    saturation_least: float
    saturation_most: float


COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("requests/s", lambda row: f"{row.rate:.1f}"),
    ("offered tokens/s", lambda row: f"{row.offered:.0f}"),
    ("served tokens/s", lambda row: f"{row.served:.0f}"),
    ("TTFT mean ms", lambda row: f"{row.ttft_mean:.0f}"),
    ("TTFT p99 ms", lambda row: f"{row.ttft_p99:.0f}"),
    ("ITL p99 ms", lambda row: f"{row.itl_p99:.0f}"),
    ("saturation", lambda row: f"{row.saturation:.2f}"),
    (
        "least to most",
        lambda row: f"{row.saturation_least:.2f} to {row.saturation_most:.2f}",
    ),
)


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[math.ceil(share * (len(ordered) - 1))] if ordered else math.nan


def row_of(rate: float, window: Window, seconds: float) -> Row:
    mean = statistics.fmean(window.ttft) if window.ttft else math.nan
    return Row(
        rate=rate,
        offered=window.offered / seconds,
        served=window.served / seconds,
        ttft_mean=mean * 1e3,
        ttft_p99=quantile(window.ttft, 0.99) * 1e3,
        itl_p99=quantile(window.itl, 0.99) * 1e3,
        saturation=statistics.fmean(window.saturation),
        saturation_least=min(window.saturation),
        saturation_most=max(window.saturation),
    )


def crossing(
    rows: Sequence[Row], value: Callable[[Row], float], limit: float
) -> float | None:
    """Returns the interpolated rate at which a value first reaches the limit."""
    before: Row | None = None
    for row in rows:
        if value(row) >= limit:
            if before is None:
                return row.rate
            share = (limit - value(before)) / (value(row) - value(before))
            return before.rate + share * (row.rate - before.rate)
        before = row
    return None


def table(rows: Sequence[Row]) -> str:
    """Renders the rows as Markdown."""
    lines = [[title for title, _ in COLUMNS], ["--:" for _ in COLUMNS]]
    lines += [[text(row) for _, text in COLUMNS] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def findings(rows: Sequence[Row]) -> str:
    """Renders the rates at which latency and saturation turn up."""

    def line(what: str, value: Callable[[Row], float], limit: float) -> str:
        rate = crossing(rows, value, limit)
        return f"{what}: " + ("never" if rate is None else f"{rate:.1f} requests/s")

    first = rows[0]
    latencies: tuple[tuple[str, Callable[[Row], float]], ...] = (
        ("TTFT mean", lambda row: row.ttft_mean),
        ("TTFT p99", lambda row: row.ttft_p99),
        ("ITL p99", lambda row: row.itl_p99),
    )
    lines = [
        line(f"{name} reaches {times} times its light-load value", value, limit)
        for name, value in latencies
        for times in (2, 10)
        for limit in (times * value(first),)
    ]
    lines.append(line("saturation crosses 1", lambda row: row.saturation, 1.0))
    return "\n".join(lines)


class Client:
    """Sends requests and records their events."""

    def __init__(
        self, session: aiohttp.ClientSession, options: argparse.Namespace
    ) -> None:
        self._session = session
        self._options = options
        self._source = random.Random(0)  # noqa: S311 - no secret
        self.completed = 0
        self.window: Window | None = None

    async def send(self) -> None:
        """Sends one request of random length and reads its whole stream."""
        prompt = self._source.choices(range(3, 4000), k=self._about("input_tokens"))
        tokens = self._about("output_tokens")
        body = {
            "model": "demo",
            "prompt": prompt,
            "max_tokens": tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
        }
        window, sent, last = self.window, time.perf_counter(), 0.0
        if window is not None:
            window.offered += tokens
            window.unanswered.add(sent)
        async with self._session.post("/v1/completions", json=body) as answer:
            answer.raise_for_status()
            async for chunk in answer.content.iter_any():
                if events := chunk.count(b"data: {"):
                    last = self._note(window, sent, last, events)
        self.completed += 1

    def _note(
        self, window: Window | None, sent: float, last: float, events: int
    ) -> float:
        """Records events of a request in a window; returns the current time."""
        now = time.perf_counter()
        if not last and window is not None and sent in window.unanswered:
            window.unanswered.remove(sent)
            window.ttft.append(now - sent)
        if last and self.window is not None:
            self.window.itl += [(now - last) / events] * events
        return now

    async def poll(self) -> None:
        """Reads the gauge once a second."""
        while True:
            if self.window is not None:
                self.window.saturation.append(await self.gauge())
            await asyncio.sleep(1)

    async def gauge(self) -> float:
        return sum(await self._metrics(GAUGE))

    async def generated(self) -> float:
        return sum(await self._metrics(GENERATED))

    async def wait_until_empty(self) -> None:
        while any(await self._metrics(OPEN)):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)

    async def _metrics(self, pattern: re.Pattern[str]) -> list[float]:
        async with self._session.get("/metrics") as answer:
            values = pattern.findall(await answer.text())
        if not values:
            raise RuntimeError(f"/metrics has nothing like {pattern.pattern}")
        return [float(value) for value in values]

    def _about(self, option: str) -> int:
        mean: int = getattr(self._options, option)
        return self._source.randint(max(1, mean // 2), max(1, mean * 3 // 2))


class Tasks:
    """Tracks requests in flight; cancels the remaining ones at the end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def cancel(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def capacity(client: Client, seconds: float) -> float:
    """Returns requests completed per second while `FLOOD` are always open."""
    tasks = Tasks()

    async def forever() -> None:
        while True:
            await client.send()

    for _ in range(FLOOD):
        tasks.start(forever())
    await asyncio.sleep(seconds / 3)
    before, start = client.completed, time.perf_counter()
    await asyncio.sleep(seconds)
    rate = (client.completed - before) / (time.perf_counter() - start)
    await tasks.cancel()
    await client.wait_until_empty()
    await asyncio.sleep(FORGET_SECONDS)
    return rate


class Arrivals:
    """Sends requests in a Poisson stream."""

    def __init__(self, client: Client, tasks: Tasks, rate: float) -> None:
        self._client = client
        self._tasks = tasks
        self._rate = rate
        self._source = random.Random(rate)  # noqa: S311 - no secret
        self._due = time.perf_counter()

    async def go_on(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while (now := time.perf_counter()) < end:
            while self._due <= now:
                self._tasks.start(self._client.send())
                self._due += self._source.expovariate(self._rate)
            await asyncio.sleep(min(self._due - now, 0.05))


async def measure(client: Client, rate: float, seconds: float) -> Row:
    """Sends open-loop load for the given time; measures the second half."""
    tasks = Tasks()
    arrivals = Arrivals(client, tasks, rate)
    tasks.start(client.poll())
    await arrivals.go_on(seconds / 2)
    window = client.window = Window(served=-await client.generated())
    start = time.perf_counter()
    await arrivals.go_on(seconds / 2)
    window.served += await client.generated()
    window.close(time.perf_counter())
    row = row_of(rate, window, time.perf_counter() - start)
    client.window = None
    await tasks.cancel()
    await client.wait_until_empty()
    return row


@asynccontextmanager
async def serving(arguments: Sequence[str]) -> AsyncIterator[aiohttp.ClientSession]:
    """Starts a server and opens an HTTP session to it."""
    port = free_port()
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "hookline_server", "serve", "--port", str(port)),
        *arguments,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    session = aiohttp.ClientSession(
        f"http://127.0.0.1:{port}",
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
    )
    try:
        async with session, asyncio.timeout(None) as limit:
            limit.reschedule(asyncio.get_running_loop().time() + START_SECONDS)
            while not await is_ready(session):
                if server.returncode is not None:
                    sys.exit("the server did not start")
                await asyncio.sleep(0.1)
            limit.reschedule(None)
            yield session
    finally:
        if server.returncode is None:
            server.terminate()
        await server.wait()


async def is_ready(session: aiohttp.ClientSession) -> bool:
    try:
        async with session.get("/health/ready") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False


async def sweep(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    async with serving(arguments) as session:
        client = Client(session, options)
        await client.gauge()  # fail early
        rates = options.rates
        if not rates:
            most = await capacity(client, options.seconds)
            print(f"always {FLOOD} requests open: {most:.1f} requests/s", flush=True)
            rates = [share * most for share in SHARES]
        rows = []
        for rate in sorted(rates):
            rows.append(await measure(client, rate, options.seconds))
            print(" · ".join(text(rows[-1]) for _, text in COLUMNS), flush=True)
    print(f"\n{table(rows)}\n\n{findings(rows)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--seconds", type=float, default=40, help="for each rate")
    parser.add_argument("--rates", type=float, nargs="+", help="requests a second")
    parser.add_argument("--input-tokens", type=int, default=64, help="on average")
    parser.add_argument("--output-tokens", type=int, default=64, help="on average")
    options, arguments = parser.parse_known_args()
    if options.seconds < LEAST_SECONDS or min(options.rates or [1]) <= 0:
        parser.error(f"--seconds must be {LEAST_SECONDS} or more, rates above 0")
    asyncio.run(sweep(options, arguments))


if __name__ == "__main__":
    main()
