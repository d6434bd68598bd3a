"""Has a server's engines come and go with a load that rises and falls.

usage: python benchmarks/autoscaling.py run|plot [--data docs/plots/autoscaling.json]

run     four minutes: `hookline serve --autoscale 1:4`, simulated engines and Poisson
        arrivals at 2 to 14 requests per second and back, streamed, from one client
plot    draws the numbers in --data next to it, as SVG

Server, engine processes, saturation and decisions are the product's; only the steps of
the model are simulated. `run` prints a row for every five seconds, fails if a request
was lost or the metrics say otherwise than the client, and keeps its numbers in --data.
"""

import argparse
import asyncio
import json
import math
import random
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec
import numpy as np
from time_plot import Panel, time_plot

from hookline_testing.server_process import Server, serving

DATA = Path(__file__).parents[1] / "docs/plots/autoscaling.json"
SECONDS = 240.0
WINDOW_SECONDS = 5.0
FEWEST, MOST = 2.0, 14.0
"""Requests per second."""
PROMPT_TOKENS, OUTPUT_TOKENS = 64, 32
OPTIONS = (
    *("--port=0", "--executor=simulated", "--max-num-seqs=8", "--autoscale=1:4"),
    *("--simulated-step-seconds=0.02", "--simulated-prefill-token-seconds=0.0002"),
    *("--simulated-decode-request-seconds=0.002", "--autoscale-quiet=30"),
    *("--enable-scaling", "--heartbeat-seconds=1"),
)
"""An engine serves about six requests per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The server at a time.

    Attributes:
        at: Seconds from the start.
        serving: Engines that get requests.
        starting: Engines that load their model.
        leaving: Engines that finish their requests.
        saturation: Sum of all engines' saturation.
    """

    at: float
    serving: int
    starting: int
    leaving: int
    saturation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run has found.

    Attributes:
        requests: Number of requests, all of which were answered in full.
        added: Engines that joined.
        removed: Engines that left.
        start_seconds: Mean time that they took to start.
        ttfts: When each request was sent, in seconds from the start, and its time to
            the first token in milliseconds.
        changes: Lines of the log that say when and why the number changed.
        moments: The server every five seconds.
    """

    requests: int
    added: int
    removed: int
    start_seconds: float
    ttfts: list[tuple[float, float]]
    changes: list[str]
    moments: list[Moment]


@dataclass(slots=True)
class Client:
    """Streams completions from a server; see `Run.ttfts`."""

    url: str
    session: aiohttp.ClientSession
    ttfts: list[tuple[float, float]] = field(default_factory=list)

    async def ask(self, at: float, number: int) -> None:
        """Sends a request.

        Raises:
            RuntimeError: The stream has an error, or is not complete.
        """
        body = {
            "model": "demo",
            "prompt": [5 + number % 1000, *[7] * (PROMPT_TOKENS - 1)],
            "max_tokens": OUTPUT_TOKENS,
            "ignore_eos": True,
            "stream": True,
        }
        began, lines = time.monotonic(), list[bytes]()
        async with self.session.post(self.url, json=body) as response:
            response.raise_for_status()
            async for line in response.content:
                if not lines:
                    self.ttfts.append(
                        (round(at, 3), round(1e3 * (time.monotonic() - began), 1))
                    )
                lines.append(line)
        text = b"".join(lines)
        if b'data: {"error"' in text or b"data: [DONE]" not in text:
            raise RuntimeError(f"a request was lost: {text[-300:]!r}")


def rate(at: float) -> float:
    """Requests per second at a time of the run."""
    return FEWEST + (MOST - FEWEST) * math.sin(math.pi * at / SECONDS) ** 2


async def arrivals() -> AsyncIterator[float]:
    """Yields the time of each request when it has come: Poisson arrivals, thinned."""
    source, began, at = random.Random(1), time.monotonic(), 0.0  # noqa: S311
    while (at := at + source.expovariate(MOST)) < SECONDS:
        if source.random() * MOST < rate(at):
            await asyncio.sleep(max(0.0, began + at - time.monotonic()))
            yield at


async def send_all(client: Client) -> int:
    """Sends all requests and waits for their ends; returns their number."""
    number = 0
    async with asyncio.TaskGroup() as group:
        async for at in arrivals():
            group.create_task(client.ask(at, number))
            number += 1
    return number


async def watch(server: Server, moments: list[Moment]) -> None:
    """Notes the server's state every five seconds, until it is cancelled."""
    began = time.monotonic()
    while True:
        at = (1 + len(moments)) * WINDOW_SECONDS
        await asyncio.sleep(max(0.0, began + at - time.monotonic()))
        moment = await asyncio.to_thread(look, server, at)
        moments.append(moment)
        print(
            f"{at:4.0f} s {rate(min(at, SECONDS)):4.1f}/s engines {moment.serving} + "
            f"{moment.starting} − {moment.leaving} saturation {moment.saturation:.2f}",
            flush=True,
        )


def look(server: Server, at: float) -> Moment:
    states = [each["state"] for each in json.loads(server.get("/scale")[1])["engines"]]
    return Moment(
        at=at,
        serving=states.count("serving"),
        starting=states.count("starting"),
        leaving=states.count("leaving"),
        saturation=total(server, "hookline_saturation_ratio"),
    )


def total(server: Server, name: str) -> float:
    """Sum of a metric's series."""
    lines = server.get("/metrics")[1].splitlines()
    ours = [each for each in lines if each.startswith((f"{name}{{", f"{name} "))]
    return sum(float(each.rpartition(" ")[2]) for each in ours)


async def measure(server: Server, moments: list[Moment]) -> Client:
    """Sends the load; returns once all requests have ended.

    Raises:
        ExceptionGroup: A request was lost.
    """
    url = f"http://127.0.0.1:{server.port}/v1/completions"
    unlimited = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=unlimited) as session:
        client = Client(url, session)
        watching = asyncio.create_task(watch(server, moments))
        try:
            await send_all(client)
        finally:
            watching.cancel()
    return client


def run() -> Run:
    """Runs it.

    Raises:
        RuntimeError: The metrics say otherwise than the client.
    """
    moments: list[Moment] = []
    with serving(*OPTIONS) as server:
        client = asyncio.run(measure(server, moments))
        sent = len(client.ttfts)
        time.sleep(2.0)  # until the last states are reported
        received = total(server, "hookline_requests_received_total")
        finished = total(server, "hookline_requests_finished_total")
        if not received == finished == sent:
            raise RuntimeError(f"{sent} sent, {received} received, {finished} finished")
        added = total(server, "hookline_engines_added_total")
        removed = total(server, "hookline_engines_removed_total")
        seconds = total(server, "hookline_engine_start_seconds_total")
        log = server.log.read_text().splitlines()
    found = Run(
        requests=sent,
        added=round(added),
        removed=round(removed),
        start_seconds=round(seconds / max(1.0, added), 2),
        ttfts=client.ttfts,
        changes=[line for line in log if "engines: from" in line],
        moments=moments,
    )
    print(
        f"{sent} requests, none lost; {found.added} engines added, {found.removed} "
        f"removed, {found.start_seconds} s to start; TTFT {percentiles(found.ttfts)}"
    )
    print(*found.changes, sep="\n")
    return found


def percentiles(ttfts: Sequence[tuple[float, float]]) -> str:
    median, most = np.percentile([ttft for _, ttft in ttfts], (50, 99))
    return f"{median:.0f} ms at the median, {most:.0f} ms at the 99th percentile"


def plot(found: Run) -> str:
    """Draws load, engines and latency over time."""
    times = [each.at for each in found.moments]
    windows = [
        [ttft for at, ttft in found.ttfts if end - WINDOW_SECONDS <= at < end]
        for end in times
    ]
    sent = [len(each) / WINDOW_SECONDS for each in windows]
    panels: list[Panel] = [
        ("requests per second: mean, and sent in 5 s", [_means(times), sent]),
        (
            "engines: serving, and with those that start or leave",
            [
                [float(each.serving) for each in found.moments],
                [
                    float(each.serving + each.starting + each.leaving)
                    for each in found.moments
                ],
            ],
        ),
        ("saturation of all engines", [[each.saturation for each in found.moments]]),
        (
            "time to the first token in ms: median and 99th percentile of 5 s",
            [_percentile(windows, 50), _percentile(windows, 99)],
        ),
    ]
    return time_plot("Engines come and go", times, panels, tick_seconds=60)


def _means(times: Sequence[float]) -> list[float]:
    return [rate(min(each, SECONDS)) for each in times]


def _percentile(windows: Sequence[Sequence[float]], which: int) -> list[float]:
    return [float(np.percentile(each, which)) if each else 0.0 for each in windows]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "plot"))
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    path: Path = options.data
    if options.what == "run":
        path.write_bytes(msgspec.json.encode(run()) + b"\n")
    found = msgspec.json.decode(path.read_bytes(), type=Run)
    path.with_suffix(".svg").write_text(plot(found))


if __name__ == "__main__":
    main()
