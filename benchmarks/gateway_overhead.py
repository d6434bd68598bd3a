"""What gateways add to first tokens and to tokens, and what they cost the processor.

    python benchmarks/gateway_overhead.py [--streams 64] [--rounds 3] [--requests 3000]
        [--litellm ENVIRONMENT/bin/litellm] [--portkey FOLDER]

The same client asks the same upstream directly and through each gateway in turn, round
by round; streams that are not measured come first, so that gateways have connections to
the upstream as under steady traffic. A plain relay of bytes on asyncio shows what any
such process adds here. On a machine with other work, run it under `chrt -f 5`, which
all its processes inherit.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gateway_load import Pace, Target, Times, requests, streams
from gateway_peers import Peer, litellm, portkey
from process_memory import memory_mib
from processor_time import processor_seconds

from hookline_server.listening import listen

HERE = Path(__file__).parent
CONNECTIONS = 32


@dataclass
class Side:
    """One way to the upstream, and what was measured on it."""

    name: str
    target: Target
    process: subprocess.Popen[bytes] | None = None
    times: Times = field(default_factory=Times)
    streaming: float = 0.0
    answering: float = 0.0
    answered: int = 0
    seconds: float = 0.0

    @property
    def used(self) -> float:
        """Processor time of the gateway so far."""
        pid = None if self.process is None else self.process.pid
        return 0.0 if pid is None else sum(processor_seconds(pid).values())


def free_port() -> int:
    """Returns a port on which nobody listens."""
    with listen("127.0.0.1", 0) as bound:
        port: int = bound.getsockname()[1]
        return port


@contextmanager
def started(peer: Peer) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a process as long as the block."""
    process = subprocess.Popen(  # noqa: S603 - what the caller has named
        peer.command,
        env={**os.environ, **peer.environment},
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


async def ready(target: Target, process: subprocess.Popen[bytes]) -> None:
    """Waits until an answer has come through."""
    async with asyncio.timeout(120):
        while process.poll() is None:
            try:
                await requests(target, 1, 1)
            except (OSError, ValueError):
                await asyncio.sleep(0.2)
            else:
                return
    raise RuntimeError(f"it has ended: {process.args!r}")


def _python(*arguments: str) -> Peer:
    return Peer((sys.executable, *arguments), {})


def _peers(
    options: argparse.Namespace, upstream: int, folder: Path
) -> Iterator[tuple[str, Target, Peer]]:
    """Yields the gateways, each with a port of its own, which nobody serves yet."""
    url = f"http://127.0.0.1:{upstream}"
    port = free_port()
    load = str(HERE / "gateway_load.py")
    relay = _python(load, "--port", str(port), "--relay-to", str(upstream))
    yield _side("relay of bytes", port, relay)
    port = free_port()
    ours = ("-m", "hookline_server", "gateway", url, "--port", str(port))
    yield _side("hookline gateway", port, _python(*ours, "--log-level", "warning"))
    if options.litellm is not None:
        port = free_port()
        yield _side("litellm", port, litellm(options.litellm, folder, url, port))
    if options.portkey is not None:
        port = free_port()
        yield _side("portkey", port, portkey(options.portkey, url, port))


def _side(name: str, port: int, peer: Peer) -> tuple[str, Target, Peer]:
    return name, Target(port, headers=peer.headers), peer


async def _round(side: Side, options: argparse.Namespace, pace: Pace) -> None:
    await streams(side.target, options.streams, 1, pace)
    before = side.used
    side.times.add(await streams(side.target, options.streams, options.each, pace))
    between = side.used
    side.seconds += await requests(side.target, CONNECTIONS, options.requests)
    side.streaming += between - before
    side.answering += side.used - between
    side.answered += options.requests


def _line(side: Side, direct: Side) -> str:
    added = [
        statistics.median(own) - statistics.median(without)
        for own, without in (
            (side.times.first, direct.times.first),
            (side.times.token, direct.times.token),
        )
    ]
    cells = [side.name, *map(_percentiles, (side.times.first, side.times.token))]
    cells += [f"{each:+.3f}" for each in added]
    if side.process is not None:
        tokens = len(side.times.first) + len(side.times.token)
        cells.append(f"{1e6 * side.streaming / tokens:.0f}")
        cells.append(f"{1e6 * side.answering / side.answered:.0f}")
        cells.append(f"{side.answered / side.answering:.0f}")
        cells.append(f"{memory_mib(side.process.pid):.0f}")
    return " | ".join(cells)


def _percentiles(values: Sequence[float]) -> str:
    ordered = sorted(values)
    last = ordered[int(0.99 * len(ordered))]
    return f"{statistics.median(ordered):.3f} | {last:.3f}"


async def measure(options: argparse.Namespace) -> None:
    """Measures all ways in turn, and prints a table."""
    pace, port = Pace(options.tokens, options.interval), free_port()
    upstream = _python(
        *(str(HERE / "gateway_load.py"), "--port", str(port)),
        *("--tokens", str(pace.tokens), "--interval", str(pace.seconds)),
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        process = stack.enter_context(started(upstream))
        sides = [Side("direct", Target(port))]
        await ready(sides[0].target, process)
        for name, target, peer in _peers(options, port, folder):
            process = stack.enter_context(started(peer))
            await ready(target, process)
            sides.append(Side(name, target, process))
        for side in sides:  # what is done once is not measured
            await requests(side.target, CONNECTIONS, 200)
        for _ in range(options.rounds):
            for side in sides:
                await _round(side, options, pace)
        print(
            f"{options.streams} streams, ms: first token p50 | p99 | token p50 | p99 | "
            "added to first | to token | processor us a token | a request | "
            "requests/s a core | MiB"
        )
        for side in sides:
            print(_line(side, sides[0]))


def main() -> None:
    """Reads the options, and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--each", type=int, default=2, help="streams one after another")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--interval", type=float, default=0.05)
    parser.add_argument("--litellm", type=Path)
    parser.add_argument("--portkey", type=Path)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
