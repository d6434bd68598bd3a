"""Anonymous memory of every process of a server, over time."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hookline_testing.server_process import descendants_of

FLAT_MB_A_MINUTE = 1.0
FLAT_MB = 12.0
"""A process is level if it grows by less than the one or the other."""
_ROLES = (
    ("engine_process", "engine"),
    ("api_servers.child", "API server"),
    ("hookline_observer.process", "observer"),
    ("texts.process", "text process"),
    ("hookline_grammars.process", "grammar compiler"),
)
_RESIDENT = re.compile(r"RssAnon:\s+(\d+) kB")


class Growth(NamedTuple):
    """How a process has grown.

    Attributes:
        name: Its role and its id.
        first_mb: Its size at first.
        last_mb: Its size at last.
        slope: Growth in MB a minute, by least squares.
        minutes: How long it was watched.
    """

    name: str
    first_mb: float
    last_mb: float
    slope: float
    minutes: float

    @property
    def is_flat(self) -> bool:
        """Whether its memory is level."""
        grown = self.slope * self.minutes
        return self.slope < FLAT_MB_A_MINUTE or grown < FLAT_MB


@dataclass(slots=True)
class ProcessSizes:
    """Samples in MB, by process, each with its time in minutes.

    Attributes:
        samples: By role and id.
    """

    samples: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def take(self, pid: int) -> None:
        """Takes a sample of a server and of all processes that it has started."""
        at = time.monotonic() / 60
        for each in (pid, *descendants_of(pid)):
            if (size := _resident_mb(each)) is not None:
                name = f"{_role(each, pid)} {each}"
                self.samples.setdefault(name, []).append((at, size))

    def growths(self) -> list[Growth]:
        """Returns the growth of each process that was there to the end."""
        latest = max(points[-1][0] for points in self.samples.values())
        return sorted(
            _growth(name, points)
            for name, points in self.samples.items()
            if len(points) > 2 and latest - points[-1][0] < 0.01
        )


def _growth(name: str, points: list[tuple[float, float]]) -> Growth:
    mean_at = sum(at for at, _ in points) / len(points)
    mean_mb = sum(mb for _, mb in points) / len(points)
    spread = sum((at - mean_at) ** 2 for at, _ in points)
    slope = sum((at - mean_at) * (mb - mean_mb) for at, mb in points) / spread
    (first_at, first), (last_at, last) = points[0], points[-1]
    return Growth(name, first, last, slope, last_at - first_at)


def _role(pid: int, server: int) -> str:
    if pid == server:
        return "server"
    line = _read(pid, "cmdline").replace("\0", " ")
    return next((role for part, role in _ROLES if part in line), "other")


def _resident_mb(pid: int) -> float | None:
    found = _RESIDENT.search(_read(pid, "status"))
    return int(found[1]) / 1024 if found else None


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text("utf-8", "replace")
    except OSError:  # it has just ended
        return ""


def memory_table(growths: list[Growth]) -> Mapping[str, str]:
    """Returns the lines of a table, by process."""
    return {
        each.name: f"| {each.name} | {each.first_mb:.0f} | {each.last_mb:.0f} | "
        f"{each.slope:+.2f} | {'level' if each.is_flat else 'GROWS'} |"
        for each in growths
    }
