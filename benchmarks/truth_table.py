"""Compares panels' values with what the client measured itself in the same run.

usage: python benchmarks/truth_table.py [--requests 300] [--request-rate 100]
                                        [--seats 4] [--native]
                                        [-- OPTIONS OF hookline serve]

Needs `prometheus`, on PATH or where `make programs` puts it. Clients stream
completions from a fresh server that a real Prometheus scrapes four times a second;
prompts share a prefix, and more requests arrive than run at once. Prints a table in
Markdown. The client's queue time is inferred: with S seats and first come, first
served, a request begins when a seat is free.

With `--native`, Prometheus takes native histograms, and latencies are read from them.

Counts must be the same. Means of spans contain the way to the server and back on the
client's side; quantiles are interpolated in buckets on the server's; running requests
and those in flight are sampled by the scrapes.
"""

import argparse
import asyncio
import math
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from truth_panels import PANELS, Panel, Seen

from hookline_bench.client import ENDPOINTS, Backend, Client, Endpoint
from hookline_bench.load import drive, open_session
from hookline_bench.random_prompts import Prompt
from hookline_testing.debian_programs import find_program
from hookline_testing.prometheus_process import Prometheus, scraping
from hookline_testing.server_process import serving

SCRAPE_SECONDS = 0.25
PATIENCE_SECONDS = 30.0
PREFIX = [7 + number % 90 for number in range(64)]


@dataclass(frozen=True, slots=True)
class Row:
    """A panel's values on both sides."""

    panel: Panel
    client: float
    server: float


def make_prompts(requests: int, source: random.Random) -> list[Prompt]:
    found = []
    for _ in range(requests):
        rest = [source.randrange(3, 500) for _ in range(source.randrange(8, 64))]
        content = [*PREFIX, *rest]
        found.append(
            Prompt(
                content=content,
                prompt_tokens=len(content),
                output_tokens=source.randrange(8, 48),
            )
        )
    return found


def arrivals(requests: int, rate: float, source: random.Random) -> list[float]:
    times = [0.0]
    while len(times) < requests:
        times.append(times[-1] + source.expovariate(rate))
    return times


async def ask_all(port: int, prompts: Sequence[Prompt], times: Sequence[float]) -> Seen:
    """Streams all completions; raises AssertionError if one fails."""
    endpoint = Endpoint(
        url=f"http://127.0.0.1:{port}{ENDPOINTS[Backend.OPENAI]}",
        backend=Backend.OPENAI,
        model="demo",
        has_counts=True,
    )
    async with open_session() as session:
        run = await drive(Client(session, endpoint, time.time), prompts, times)
    failed = [each.error for each in run.answers if each.error is not None]
    assert not failed, failed
    return Seen(sorted(run.answers, key=lambda each: each.sent_at), seats=0)


def read_row(
    prometheus: Prometheus, panel: Panel, seen: Seen, *, is_native: bool
) -> Row:
    span = f"{max(1, round(seen.seconds * 1000))}ms"
    at = None if panel.is_count or "{run}" not in panel.expression else seen.ended_at
    expression = panel.expression
    if is_native and panel.native is not None:
        expression = panel.native
    [server] = prometheus.values(expression.format(run=span), at=at)
    return Row(panel, panel.client(seen), server)


def wait_until_scraped(prometheus: Prometheus, requests: int) -> None:
    """Waits until Prometheus has seen the ends of all requests, and once more."""
    ended = f'sum(hookline_requests_finished_total{{reason!="rejected"}}) >= {requests}'
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not prometheus.values(ended) and time.monotonic() < deadline:
        time.sleep(SCRAPE_SECONDS)
    time.sleep(4 * SCRAPE_SECONDS)


def measure(
    program: Path,
    folder: Path,
    *argv: str,
    requests: int,
    rate: float,
    seats: int,
    is_native: bool = False,
) -> list[Row]:
    """Runs the load, and reads each panel on both sides."""
    source = random.Random(0)  # noqa: S311 - the same load each time
    prompts = make_prompts(requests, source)
    times = arrivals(requests, rate, source)
    options = ("--port=0", "--log-level=error", f"--max-num-seqs={seats}", *argv)
    with serving(*options) as server:
        targets = [{"targets": [f"127.0.0.1:{server.port}"]}]
        pace = f"{round(SCRAPE_SECONDS * 1000)}ms"
        config = {
            "global": {"scrape_interval": pace, "scrape_timeout": pace},
            "scrape_configs": [{"job_name": "hookline", "static_configs": targets}],
        }
        features = ["--enable-feature=native-histograms"] if is_native else []
        with scraping(program, folder, config, *features) as prometheus:
            wait_until_scraped(prometheus, 0)
            answers = asyncio.run(ask_all(server.port, prompts, times)).answers
            wait_until_scraped(prometheus, requests)
            seen = Seen(answers, seats)
            return [
                read_row(prometheus, panel, seen, is_native=is_native)
                for panel in PANELS
            ]


def table(rows: Sequence[Row]) -> str:
    lines = ["| panel | client | server | server / client |", "|---|---|---|---|"]
    for row in rows:
        ratio = row.server / row.client if row.client else math.nan
        same = "equal" if row.server == row.client else f"{ratio:.3f}"
        cells = (row.panel.name, _cell(row, row.client), _cell(row, row.server), same)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: Row, value: float) -> str:
    if row.panel.is_count:
        return f"{value:.0f}"
    if row.panel.unit == "ms":
        return f"{value * 1000:.2f} ms"
    return f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--request-rate", type=float, default=100.0)
    parser.add_argument("--seats", type=int, default=4)
    parser.add_argument("--native", action="store_true", help="histograms")
    parser.add_argument("serve", nargs="*", help="options of hookline serve")
    options = parser.parse_args()
    program = find_program("prometheus")
    if program is None:
        sys.exit("There is no prometheus; `make programs` gets it.")
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(
            program,
            Path(folder),
            *options.serve,
            requests=options.requests,
            rate=options.request_rate,
            seats=options.seats,
            is_native=options.native,
        )
    print(table(rows))


if __name__ == "__main__":
    main()
