"""Compares one instance with a disaggregated pair under bursts of long prompts.

usage: python benchmarks/disaggregation.py [--model llama-90m] [--seconds 30]
           [--streams 6] [--burst 4] [--every 3] [--long-tokens 2000]
           [--connector shared_storage] [--arms mixed,small,split] [--rounds 1]

Streams with short prompts decode continuously, one completion after another; bursts of
long prompts arrive periodically. Each arm has the same two cores:

    mixed   one instance with both
    small   the same, with at most --small-tokens tokens in a step
    split   a prefill and a decode instance with a core each, behind a proxy that sends
            short prompts directly to the decode instance

The proxy and this program run on the same two cores. Arms take turns, --rounds times.
Prints the streams' inter-token latencies, over all gaps and over those in which a long
prompt awaited its first token; then the streams' tokens per second, and the time to
first token of streams and long prompts.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import numpy as np
from bench_folders import own_folder

from hookline_bench.answer import Answer
from hookline_bench.client import Backend, Client, Endpoint
from hookline_bench.random_prompts import Prompt, PromptShape, id_prompts
from hookline_pd_proxy.demo import HOST, DemoSettings
from hookline_pd_proxy.pools import Role
from hookline_server.listening import bound_port, listen

START_SECONDS = 120.0
WARM_SECONDS = 3.0
FIRST_ID, VOCABULARY = 1000, 7000
SHORT_CHARACTERS = 1000


@dataclass
class Outcome:
    """One arm's requests of all rounds; times are seconds on one clock."""

    streams: list[Answer] = field(default_factory=list)
    bursts: list[Answer] = field(default_factory=list)
    seconds: float = 0.0
    loaded: float = 0.0


@contextmanager
def started(argv: Sequence[str], cores: Sequence[int], port: int) -> Iterator[None]:
    """Runs a server on these cores and waits until it is ready."""
    command = [sys.executable, "-P", "-m", "hookline_server", *argv]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:  # noqa: S603
        os.sched_setaffinity(process.pid, cores)
        try:
            deadline = time.monotonic() + START_SECONDS
            while not is_ready(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("a server did not start")
                time.sleep(0.1)
            yield
        finally:
            process.terminate()


def is_ready(port: int) -> bool:
    try:
        return "hookline_" in page(port, "metrics") and bool(page(port, "health"))
    except OSError:
        return False


def page(port: int, name: str) -> str:
    with urllib.request.urlopen(f"http://{HOST}:{port}/{name}", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def metric(port: int, name: str) -> float:
    lines = (line.rsplit(" ", 1) for line in page(port, "metrics").splitlines())
    return sum(float(value) for key, value in lines if key.split("{")[0] == name)


@contextmanager
def arm(name: str, options: argparse.Namespace) -> Iterator[tuple[int, int]]:
    """Starts an arm; yields the port for requests and the decode instance's port."""
    serve = ["--model", options.model, "--log-level", "error"]
    serve += ["--num-kv-blocks", "2048", "--stat-logger", "prometheus"]
    first, second = sorted(os.sched_getaffinity(0))[:2]
    with listen(HOST, 0) as one, listen(HOST, 0) as two, listen(HOST, 0) as three:
        ports = [bound_port(each) for each in (one, two, three)]
    with ExitStack() as stack:
        if name != "split":
            more = ["--max-num-batched-tokens", str(options.small_tokens)]
            more += ["--max-num-seqs", "64"]
            argv = ["serve", *serve, "--threads", "2", "--port", str(ports[0])]
            argv += more if name == "small" else []
            stack.enter_context(started(argv, [first, second], ports[0]))
            yield ports[0], ports[0]
            return
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        demo = DemoSettings(
            connector=options.connector,
            arguments=[*serve, "--threads", "1"],
            ports={Role.PREFILL: ports[1], Role.DECODE: ports[2]},
        )
        for role, core in ((Role.PREFILL, first), (Role.DECODE, second)):
            argv = demo.command(role, folder)[4:]
            stack.enter_context(started(argv, [core], demo.ports[role]))
        argv = ["route", "--port", str(ports[0]), "--log-level", "error"]
        argv += ["--prefill", demo.url(Role.PREFILL), "--decode", demo.url(Role.DECODE)]
        argv += ["--prefill-min-characters", str(SHORT_CHARACTERS)]
        stack.enter_context(started(argv, [first, second], ports[0]))
        yield ports[0], ports[2]


def prompts(seed: int, tokens: int, output: int, count: int) -> list[Prompt]:
    shape = PromptShape(input_tokens=tokens, output_tokens=output)
    ids = range(FIRST_ID, VOCABULARY)
    return id_prompts(shape, count, ids, np.random.default_rng(seed))


async def load(port: int, options: argparse.Namespace, seed: int) -> Outcome:
    """Sends streams and bursts for the given time."""
    outcome = Outcome()
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(None)
    ) as session:
        endpoint = Endpoint(
            url=f"http://{HOST}:{port}/v1/completions",
            backend=Backend.OPENAI,
            model=Path(options.model).name,
            fields={"temperature": 0},
        )
        client = Client(session, endpoint, time.perf_counter)
        begin = time.perf_counter()
        end = begin + options.seconds

        async def stream(number: int) -> None:
            source = iter(prompts(seed + number, 32, options.stream_tokens, 1000))
            while time.perf_counter() < end:
                outcome.streams.append(await client.ask(next(source)))

        async def burst() -> None:
            await asyncio.sleep(WARM_SECONDS)
            source = iter(prompts(seed + 999, options.long_tokens, 16, 1000))
            asking: list[asyncio.Task[Answer]] = []
            while time.perf_counter() < end - options.every / 2:
                asking += [
                    asyncio.create_task(client.ask(next(source)))
                    for _ in range(options.burst)
                ]
                await asyncio.sleep(options.every)
            outcome.bursts += await asyncio.gather(*asking)

        await asyncio.gather(
            *(stream(each) for each in range(options.streams)), burst()
        )
        outcome.seconds = time.perf_counter() - begin
    return outcome


def gaps(outcome: Outcome, *, in_bursts: bool = False) -> list[float]:
    """Returns the inter-token latencies of the streams in milliseconds."""
    spans = [(each.sent_at, each.times[0]) for each in outcome.bursts if each.times]
    found = []
    for answer in outcome.streams:
        for before, after in zip(answer.times, answer.times[1:], strict=False):
            if not in_bursts or any(a < after and before < b for a, b in spans):
                found.append(1000 * (after - before))
    return found or [0.0]


def print_report(name: str, outcome: Outcome) -> None:
    everything, under = gaps(outcome), gaps(outcome, in_bursts=True)
    errors = [each.error for each in outcome.streams + outcome.bursts if each.error]
    tokens = sum(each.output_tokens for each in outcome.streams if not each.error)
    firsts = [
        1000 * np.asarray([each.ttft for each in kind if each.times] or [0.0])
        for kind in (outcome.streams, outcome.bursts)
    ]
    print(f"{name}: {len(outcome.streams)} streams, {len(outcome.bursts)} long prompts")
    for title, values in (("inter-token", everything), ("  in bursts", under)):
        p50, p90, p99 = np.percentile(values, (50, 90, 99))
        print(
            f"  {title}: p50 {p50:.1f}  p90 {p90:.1f}  p99 {p99:.1f}  "
            f"worst {max(values):.0f} ms"
        )
    print(f"  streams: {tokens / outcome.seconds:.0f} tok/s")
    for title, times in zip(("stream", "long prompt"), firsts, strict=True):
        print(
            f"  TTFT of a {title}: median {np.median(times):.0f}  "
            f"p99 {np.percentile(times, 99):.0f} ms"
        )
    if outcome.loaded:
        print(f"  {outcome.loaded:.0f} tokens of prompts were loaded")
    if errors:
        print(f"  {len(errors)} errors, such as {errors[0]}")


def main() -> None:
    parser = argparse.ArgumentParser()
    folder = own_folder("models")
    parser.add_argument("--model", default=str(folder / "llama-90m"))
    parser.add_argument("--connector", default="shared_storage")
    parser.add_argument("--arms", default="mixed,small,split")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--every", type=float, default=3)
    for name, default in (
        ("rounds", 1),
        ("streams", 6),
        ("stream-tokens", 100),
        ("burst", 4),
        ("long-tokens", 2000),
        ("small-tokens", 128),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("two cores are needed")
    outcomes = {name: Outcome() for name in options.arms.split(",")}
    for number in range(options.rounds):
        for name, total in outcomes.items():
            with arm(name, options) as (port, decode):
                found = asyncio.run(load(port, options, seed=10_000 * (number + 1)))
                total.loaded += metric(decode, "hookline_transferred_tokens_total")
            total.streams += found.streams
            total.bursts += found.bursts
            total.seconds += found.seconds
    for name, outcome in outcomes.items():
        print_report(name, outcome)


if __name__ == "__main__":
    main()
