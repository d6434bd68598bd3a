"""A well-behaved client beside a storm: how long it was kept waiting, and by whom.

`python -m hookline_faults.fuzzing.canary HOST PORT ECHO_PORT KEY PID…` asks for
`/health` all the time, reads a stream and asks an echo server, whose stalls are the
machine's own. It writes a line when it has seen all three, and, when its standard input
ends, a `Sighting` as JSON.
"""

import asyncio
import contextlib
import json
import sys
import time
from dataclasses import asdict, dataclass, field

from hookline_faults.fuzzing.responses import read_response
from hookline_testing.processor_wait import processor_wait_seconds

INTERVAL_SECONDS = 0.02
NOTED_SECONDS = 0.05
"""Shorter waits are not kept."""
_PATIENCE_SECONDS = 60.0
_MOST_NOTED = 100_000
_HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass(slots=True)
class Watch:
    """What one loop of the canary saw.

    Attributes:
        count: Number of answers or pieces.
        pids: The processes that it waits for.
        waits: Begin (monotonic, seconds) and length of each long wait, and for how long
            the processes meanwhile waited for a processor.
        faults: Answers that were not right, by their text.
    """

    count: int = 0
    pids: list[int] = field(default_factory=list)
    waits: list[tuple[float, float, float]] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)

    def begin(self) -> tuple[float, float]:
        """Returns the time, and how long the processes have waited so far."""
        return time.monotonic(), processor_wait_seconds(self.pids)

    def note(self, begun: tuple[float, float]) -> None:
        """Adds a wait that has just ended."""
        self.count += 1
        seconds = time.monotonic() - begun[0]
        if seconds > NOTED_SECONDS and len(self.waits) < _MOST_NOTED:
            waited = processor_wait_seconds(self.pids) - begun[1]
            self.waits.append((begun[0], seconds, waited))

    def fail(self, what: str) -> None:
        """Adds a fault."""
        self.faults[what] = self.faults.get(what, 0) + 1


@dataclass(slots=True)
class Sighting:
    """What a canary saw: of the server's health, of its stream, and of the echo."""

    health: Watch = field(default_factory=Watch)
    stream: Watch = field(default_factory=Watch)
    echo: Watch = field(default_factory=Watch)


async def ask(host: str, port: int, watch: Watch) -> None:
    """Asks for `/health` in an endless loop, on one connection while it lasts."""
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            with contextlib.closing(writer):
                await _ask_on(reader, writer, watch)
        except (OSError, EOFError) as error:
            watch.fail(type(error).__name__)
        await asyncio.sleep(INTERVAL_SECONDS)


async def _ask_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, watch: Watch
) -> None:
    while True:
        begun = watch.begin()
        writer.write(_HEALTH)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            response = await read_response(reader, is_head=False)
        watch.note(begun)
        if response.status != 200:
            watch.fail(str(response.status))
        await asyncio.sleep(INTERVAL_SECONDS)


async def read_streams(host: str, port: int, watch: Watch, key: str) -> None:
    """Reads one stream after another, and notes the gaps between their pieces."""
    body = json.dumps(
        {
            "model": "demo",
            "prompt": [1, 2, 3],
            "max_tokens": 1000,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
        }
    )
    head = f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}"
    data = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n{body}"
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            with contextlib.closing(writer):
                writer.write(data.encode())
                await _read_stream(reader, watch)
        except (OSError, EOFError) as error:
            watch.fail(type(error).__name__)
        await asyncio.sleep(INTERVAL_SECONDS)


async def _read_stream(reader: asyncio.StreamReader, watch: Watch) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    status = head.split(b" ", 2)[1].decode()
    if status != "200":  # too much work is no fault of a stream
        if status not in {"429", "503"}:
            watch.fail(status)
        return
    begun = watch.begin()
    while True:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            piece = await reader.read(1 << 16)
        watch.note(begun)
        begun = watch.begin()
        if b'data: {"error"' in piece:
            watch.fail(piece[:200].decode("utf-8", "replace"))
        if not piece:
            watch.fail("the stream broke off")
        if not piece or piece.endswith(b"0\r\n\r\n"):
            return


async def _seen_once(seen: Sighting) -> None:
    """Waits until everything has answered once, or for a minute."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    watches = (seen.health, seen.stream, seen.echo)
    while not all(each.count for each in watches):
        if time.monotonic() > deadline:
            return
        await asyncio.sleep(INTERVAL_SECONDS)


async def main(host: str, port: int, echo_port: int, key: str, pids: list[int]) -> None:
    """Watches until standard input ends, then writes what it saw."""
    seen = Sighting(Watch(pids=pids[:1]), Watch(pids=pids))
    tasks = [
        asyncio.create_task(ask(host, port, seen.health)),
        asyncio.create_task(ask("127.0.0.1", echo_port, seen.echo)),
        asyncio.create_task(read_streams(host, port, seen.stream, key)),
    ]
    await _seen_once(seen)
    sys.stdout.write("watching\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(result, asyncio.CancelledError):
            seen.health.fail(repr(result))
    sys.stdout.write(json.dumps(asdict(seen)))


if __name__ == "__main__":
    pids_given = list(map(int, sys.argv[5:]))
    first, second = int(sys.argv[2]), int(sys.argv[3])
    asyncio.run(main(sys.argv[1], first, second, sys.argv[4], pids_given))
