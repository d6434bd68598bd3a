"""Measures the latency of `/metrics` under saturation, and the cost of scraping.

usage: python benchmarks/scrape.py [--model demo] [--clients 64] [--rate 20]
                                   [--seconds 15] [--pairs 3] [--port-apart]
                                   [-- OPTIONS OF hookline serve]

Clients stream completions continuously from `hookline serve`, while a scraper
alternates between requesting the page at a steady rate and idling (A B A B …). The
scraper is a separate process, so that the clients' work does not delay its clock.
Prints the page's latency, and the inter-token latency with and without scraping, as the
clients see them.
"""

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import aiohttp

SETTLE_SECONDS = 5.0
START_SECONDS = 2.0
HEADERS = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "gzip"}


@contextmanager
def serving(options: argparse.Namespace) -> Iterator[dict[str, str]]:
    """Returns the URLs in the banner of a ready server."""
    apart = ["--metrics-port", "0"] if options.port_apart else []
    command = [
        *(
            sys.executable,
            "-P",
            "-m",
            "hookline_server",
            "serve",
            "--model",
            options.model,
        ),
        *("--port", "0", "--log-level", "error", *apart, *options.serve),
    ]
    with subprocess.Popen(  # noqa: S603 - our own server
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        urls = {}
        for line in iter(process.stdout.readline, ""):
            words = line.split()
            if len(words) > 1 and words[1].startswith("http"):
                urls[words[0]] = words[1]
            if words[:1] == ["curl"]:
                break
        try:
            yield urls
        finally:
            process.terminate()


async def stream(
    session: aiohttp.ClientSession, url: str, model: str, gaps: list[float]
) -> None:
    """Streams completions in sequence; records the time between chunks."""
    source = random.Random()  # noqa: S311 - no secret
    while True:
        prompt = [source.randrange(3, 500) for _ in range(source.randrange(16, 64))]
        body = {
            "model": model,
            "prompt": prompt,
            "max_tokens": source.randrange(64, 192),
            "ignore_eos": True,
            "stream": True,
        }
        async with session.post(f"{url}/completions", json=body) as response:
            before: float | None = None
            async for line in response.content:
                if not line.startswith(b"data: {"):
                    continue
                now = time.perf_counter()
                if before is not None:
                    gaps.append(now - before)
                before = now


@asynccontextmanager
async def load(url: str, model: str, clients: int) -> AsyncIterator[list[float]]:
    """Yields a list of inter-chunk gaps that grows while clients stream."""
    gaps: list[float] = []
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        tasks = [
            asyncio.create_task(stream(session, url, model, gaps))
            for _ in range(clients)
        ]
        try:
            yield gaps
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def scrape(url: str, rate: float, seconds: float) -> list[float]:
    """Requests the page at a steady rate; returns the response times in seconds."""
    found = []
    time.sleep(START_SECONDS)
    start = time.perf_counter()
    for number in range(round(rate * seconds)):
        time.sleep(max(0.0, start + number / rate - time.perf_counter()))
        asked = time.perf_counter()
        request = urllib.request.Request(url, headers=HEADERS)  # noqa: S310
        with urllib.request.urlopen(request) as response:  # noqa: S310
            response.read()
        found.append(time.perf_counter() - asked)
    time.sleep(max(0.0, start + seconds - time.perf_counter()))
    return found


async def scrape_apart(url: str, rate: float, seconds: float) -> list[float]:
    """Starts the scraper process in both arms, so that only the scrapes differ."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--scrape", url),
        *("--rate", str(rate), "--seconds", str(seconds)),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    found: list[float] = json.loads(output)
    return found


async def measure(urls: dict[str, str], options: argparse.Namespace) -> None:
    pages: list[float] = []
    model = options.model.rstrip("/").rsplit("/", 1)[-1]
    sides: dict[str, list[float]] = {"scraped": [], "left alone": []}
    async with load(urls["API"], model, options.clients) as gaps:
        await asyncio.sleep(SETTLE_SECONDS)
        for pair in range(options.pairs):
            for side in sides if pair % 2 == 0 else reversed(sides):
                rate = options.rate if side == "scraped" else 0.0
                scraping = asyncio.create_task(
                    scrape_apart(urls["metrics"], rate, options.seconds)
                )
                await asyncio.sleep(START_SECONDS)  # until its process has started
                gaps.clear()
                pages += await scraping
                sides[side].append(percentile(gaps, 99))
                show(f"pair {pair + 1}, {side}: inter-token", gaps)
    show("/metrics", pages)
    ratios = [a / b for a, b in zip(*sides.values(), strict=True)]
    print(
        f"inter-token p99, scraped / left alone: {statistics.median(ratios):.3f} "
        f"({min(ratios):.3f} to {max(ratios):.3f})"
    )


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share / 100 * len(ordered)))]


def show(title: str, values: Sequence[float]) -> None:
    parts = ", ".join(f"p{q} {percentile(values, q) * 1e3:.1f}" for q in (50, 90, 99))
    print(f"{title}: {parts} ms, {len(values)} seen", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--port-apart", action="store_true")
    parser.add_argument("--scrape", metavar="URL")
    parser.add_argument("serve", nargs="*", help="options of hookline serve")
    options = parser.parse_args()
    if options.scrape:
        print(json.dumps(scrape(options.scrape, options.rate, options.seconds)))
        return
    with serving(options) as urls:
        asyncio.run(measure(urls, options))


if __name__ == "__main__":
    main()
