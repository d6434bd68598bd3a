"""Runs a canary and its echo server in processes of their own, and judges stalls."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from hookline_faults.fuzzing.canary import Sighting, Watch
from hookline_processes.python import python_command
from hookline_testing.server_process import Server

Wait = tuple[float, float, float]


@dataclass(slots=True)
class Watched:
    """What the canary saw, once the `with` statement has ended."""

    sighting: Sighting = field(default_factory=Sighting)

    @property
    def worst_seconds(self) -> dict[str, float]:
        """The longest wait for `/health`, for a stream's piece and for the echo."""
        seen = self.sighting
        return {
            "health": _longest(seen.health.waits),
            "stream": _longest(seen.stream.waits),
            "echo": _longest(seen.echo.waits),
        }

    @property
    def worst_own_seconds(self) -> float:
        """The longest wait that the machine itself does not explain."""
        seen = self.sighting
        waits = [*seen.health.waits, *seen.stream.waits]
        return max((own_seconds(each, seen.echo.waits) for each in waits), default=0.0)

    @property
    def faults(self) -> dict[str, int]:
        """Everything that the canary did not get as it should."""
        seen = self.sighting
        found = {f"echo: {key}": count for key, count in seen.echo.faults.items()}
        for name, watch in (("health", seen.health), ("stream", seen.stream)):
            found |= {f"{name}: {key}": count for key, count in watch.faults.items()}
            if not watch.count:
                found[f"{name}: nothing came at all"] = 1
        return found


def own_seconds(wait: Wait, machine: Sequence[Wait]) -> float:
    """Returns a wait's seconds less those for which the machine itself is the cause.

    In those the echo server did not answer, or the processes waited for a processor.
    """
    begin, seconds, waited = wait
    end = begin + seconds
    covered = sum(
        max(0.0, min(end, at + length) - max(begin, at)) for at, length, _ in machine
    )
    return max(0.0, seconds - max(covered, waited))


@contextmanager
def watched(server: Server, key: str = "none") -> Iterator[Watched]:
    """Watches a server while the `with` statement runs."""
    seen = Watched()
    with _running("hookline_faults.fuzzing.echo") as echo:
        assert echo.stdout is not None
        echo_port = echo.stdout.readline().strip()
        pids = (str(server.process.pid), str(server.engine_pid))
        arguments = ("127.0.0.1", str(server.port), echo_port, key, *pids)
        with _running("hookline_faults.fuzzing.canary", *arguments) as canary:
            assert canary.stdout is not None
            canary.stdout.readline()  # it watches
            yield seen
            output, _ = canary.communicate(timeout=120)
    data = json.loads(output)
    seen.sighting = Sighting(**{name: Watch(**each) for name, each in data.items()})


@contextmanager
def _running(module: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(  # noqa: S603 - our own module
        python_command("-m", module, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.stdin is not None and not process.stdin.closed:
                process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _longest(waits: Sequence[Wait]) -> float:
    return max((seconds for _, seconds, _ in waits), default=0.0)
