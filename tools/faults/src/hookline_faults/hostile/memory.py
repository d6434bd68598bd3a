"""Anonymous memory of a server's processes over time."""

import asyncio
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hookline_testing.server_process import Server

Sample = tuple[float, dict[str, float]]


@dataclass(slots=True)
class MemoryCurve:
    """Samples of RssAnon in MB: of the front end, the engine and all other processes.

    Attributes:
        samples: Seconds since the start, and the sizes.
    """

    samples: list[Sample] = field(default_factory=list)

    async def keep_sampling(self, server: Server, seconds: float) -> None:
        """Takes a sample each so many seconds, until it is cancelled."""
        begun = time.monotonic()
        while True:
            self.samples.append((time.monotonic() - begun, sizes_mb(server)))
            await asyncio.sleep(seconds)

    def slope(self, name: str, after_seconds: float) -> float:
        """Returns the growth in MB a minute after a time, by least squares."""
        points = [(at / 60, mb[name]) for at, mb in self.samples if at >= after_seconds]
        if len(points) < 2:
            return 0.0
        mean_at = sum(at for at, _ in points) / len(points)
        mean_mb = sum(mb for _, mb in points) / len(points)
        spread = sum((at - mean_at) ** 2 for at, _ in points)
        return sum((at - mean_at) * (mb - mean_mb) for at, mb in points) / spread

    def csv(self) -> str:
        """Returns the samples as a table."""
        names = sorted(self.samples[0][1])
        lines = [",".join(("seconds", *names))]
        for at, mb in self.samples:
            lines.append(
                ",".join((f"{at:.0f}", *(f"{mb[name]:.1f}" for name in names)))
            )
        return "\n".join(lines) + "\n"


def sizes_mb(server: Server) -> dict[str, float]:
    """Returns the memory of the front end, the engine and the rest, in MB."""
    engine = server.engine_pid
    others = set(_descendants(server.process.pid)) - {engine}
    return {
        "front end": server.resident_mb(),
        "engine": server.resident_mb(engine),
        "others": sum(map(_resident_mb, others)),
    }


def _resident_mb(pid: int) -> float:
    """Returns a process's RssAnon in MB; 0 if it has just ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
    except OSError:
        return 0.0
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


def _descendants(pid: int) -> Iterator[int]:
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text("ascii").split()
        except OSError:  # its thread has just ended
            continue
        for child in map(int, children):
            yield child
            yield from _descendants(child)
