"""What `hookline gateway` adds to first tokens and tokens, and requests per core.

    python benchmarks/gateway_overhead.py [--streams 64] [--seconds 5] [--rounds 5]

Clients send requests to the same upstream, a separate process, directly and through the
gateway in turn. Each of its events has the time when it was sent, on the machine's
monotonic clock, so that a token's delay is measured without the upstream's own time.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from process_memory import memory_mib
from processor_time import processor_seconds

from hookline_server.listening import listen

INTERVAL_SECONDS = 0.05
TOKENS = 40
PATH = "/v1/chat/completions"
BODY = {"model": "m", "messages": [{"role": "user", "content": "x" * 200}]}


async def healthy(_: web.Request) -> web.Response:
    """Is there."""
    return web.Response()


async def answer(request: web.Request) -> web.StreamResponse:
    """Answers at once, or streams tokens at equal intervals."""
    body = await request.json()
    usage = {"prompt_tokens": 50, "completion_tokens": TOKENS}
    if not body.get("stream"):
        choice = {"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice], "usage": usage})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    begun = time.monotonic()
    for number in range(TOKENS):
        await response.write(_event(str(time.monotonic_ns()), None))
        left = begun + (number + 1) * INTERVAL_SECONDS - time.monotonic()
        await asyncio.sleep(max(0.0, left))
    await response.write(_event("", "stop"))
    await response.write(b"data: " + json.dumps({"usage": usage}).encode() + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    return response


def _event(text: str, finish: str | None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m"}
    return b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"


def serve(port: int) -> None:
    """Runs the upstream."""
    app = web.Application()
    app.router.add_post(PATH, answer)
    app.router.add_get("/health", healthy)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)


@dataclass
class Times:
    """Milliseconds to the first tokens, and of tokens on their way."""

    first: list[float] = field(default_factory=list)
    token: list[float] = field(default_factory=list)


async def stream(session: aiohttp.ClientSession, url: str, times: Times) -> None:
    """Reads one stream."""
    begun = time.monotonic_ns()
    is_first = True
    async with session.post(url + PATH, json={**BODY, "stream": True}) as response:
        async for line in response.content:
            now = time.monotonic_ns()
            if not line.startswith(b'data: {"id"'):
                continue
            text = json.loads(line[6:])["choices"][0]["delta"]["content"]
            if not text:
                continue
            if is_first:
                times.first.append((now - begun) / 1e6)
                is_first = False
            else:
                times.token.append((now - int(text)) / 1e6)


async def streams(
    session: aiohttp.ClientSession, url: str, number: int, each: int = 3
) -> Times:
    """Keeps a number of streams open, which begin evenly in time."""
    times = Times()

    async def repeated(index: int) -> None:
        await asyncio.sleep(index * TOKENS * INTERVAL_SECONDS / number)
        for _ in range(each):
            await stream(session, url, times)

    await asyncio.gather(*map(repeated, range(number)))
    return times


async def requests(
    session: aiohttp.ClientSession, url: str, number: int, seconds: float
) -> int:
    """Asks without streams for some time; returns the number of answers."""
    until, count = time.monotonic() + seconds, 0

    async def ask() -> None:
        nonlocal count
        while time.monotonic() < until:
            async with session.post(url + PATH, json=BODY) as response:
                await response.read()
            count += 1

    await asyncio.gather(*(ask() for _ in range(number)))
    return count


def used_by(process: subprocess.Popen[bytes]) -> float:
    """Returns the processor time of a process so far."""
    return sum(processor_seconds(process.pid).values())


def free_port() -> int:
    """Returns a port on which nobody listens."""
    with listen("127.0.0.1", 0) as bound:
        port: int = bound.getsockname()[1]
        return port


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a process as long as the block."""
    process = subprocess.Popen([sys.executable, *arguments])  # noqa: S603 - our own
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


async def ready(session: aiohttp.ClientSession, url: str) -> None:
    """Waits until a server answers."""
    async with asyncio.timeout(30):
        while True:
            try:
                async with session.get(url + "/health") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)


def _shown(name: str, direct: Sequence[float], through: Sequence[float]) -> str:
    cells = [name]
    for values in (direct, through):
        ordered = sorted(values)
        mean, last = statistics.fmean(ordered), ordered[int(0.99 * len(ordered))]
        cells += [f"{mean:.3f}", f"{last:.3f}"]
    added = statistics.fmean(through) - statistics.fmean(direct)
    return " | ".join([*cells, f"{added:+.3f}"])


async def measure(options: argparse.Namespace) -> None:
    """Measures both ways in turn, and prints what the gateway adds."""
    ports = free_port(), free_port()
    direct, through = (f"http://127.0.0.1:{port}" for port in ports)
    gateway = ("-m", "hookline_server", "gateway", direct, "--port", str(ports[1]))
    connector = aiohttp.TCPConnector(limit=0)
    with (
        started(__file__, "--upstream", str(ports[0])),
        started(*gateway, "--log-level", "warning") as process,
    ):
        async with aiohttp.ClientSession(connector=connector) as session:
            await ready(session, direct)
            await ready(session, through)
            await streams(session, direct, options.streams, 1)
            await streams(session, through, options.streams, 1)
            both, spent = (Times(), Times()), 0.0
            for _ in range(options.rounds):
                for url, all_times in zip((direct, through), both, strict=True):
                    before = used_by(process)
                    found = await streams(session, url, options.streams)
                    if url == through:
                        spent += used_by(process) - before
                    all_times.first += found.first
                    all_times.token += found.token
            before = used_by(process)
            count = await requests(session, through, 64, options.seconds)
            used = used_by(process) - before
            alone = await requests(session, direct, 64, options.seconds)
            resident = memory_mib(process.pid)
    print(f"{options.streams} streams, ms: direct mean | p99 | gateway mean | p99 | +")
    print(_shown("first token", both[0].first, both[1].first))
    print(_shown("token", both[0].token, both[1].token))
    tokens = len(both[1].first) + len(both[1].token)
    print(f"processor time of the gateway: {1e6 * spent / tokens:.0f} us a token")
    print(
        f"requests/s: direct {alone / options.seconds:.0f}, gateway "
        f"{count / options.seconds:.0f}; per second of its processor "
        f"{count / used:.0f}; memory {resident:.0f} MiB"
    )


def main() -> None:
    """Measures, or is the upstream."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--upstream", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.upstream is not None:
        serve(options.upstream)
    else:
        asyncio.run(measure(options))


if __name__ == "__main__":
    main()
