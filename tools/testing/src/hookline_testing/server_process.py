"""`hookline serve` as a process, and requests to it."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

from hookline_testing.forked_servers import ForkServer, may_be_late
from hookline_testing.forks import NAME, ForkedProcess
from hookline_testing.own_time import Deadline, Stopwatch
from hookline_testing.waiting import PATIENCE_SECONDS, wait_for_value, wait_until

ANSWER_SECONDS = 240.0
"""For an answer, by the clock on the wall; a test that never gets one ends by pytest's
own limit, or by this one."""
_LISTENS = "0A"
"""State of a socket in `/proc/net/tcp`."""
_VARIABLES = {**os.environ, "OMP_NUM_THREADS": "1"}
"""Those of servers, before a test sets one."""


class Server:
    """A running `hookline serve`."""

    def __init__(
        self, process: subprocess.Popen[str] | ForkedProcess, log: Path
    ) -> None:
        self.process = process
        self.log = log
        self.banner = ""
        self.port = 0

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line.strip().startswith("API"):
                self.port = int(line.strip().rsplit(":", 1)[1].split("/")[0])
            if line.strip().startswith("curl"):
                break
        self.banner = "".join(lines)
        assert self.port, self.log.read_text()

    def wait_until_listening(self) -> None:
        """Finds the port, which the banner shows only when the model is loaded."""
        deadline = Deadline(PATIENCE_SECONDS)
        while not (ports := _listening_ports(self.process.pid)):
            assert self.process.poll() is None, self.log.read_text()
            assert deadline.is_ahead, "the server does not listen"
            time.sleep(0.02)
        [self.port] = ports

    @property
    def engine_pid(self) -> int:
        """Process id of the engine, the server's only child with this role."""
        return engine_of(self.process.pid)

    def stopwatch(self) -> Stopwatch:
        """Measures the own time of the server and of its children."""
        pid = self.process.pid
        return Stopwatch(pid, *children_of(pid))

    def resident_mb(self, pid: int | None = None) -> float:
        """Anonymous resident memory of the server, or of another process, in MB."""
        status = Path(f"/proc/{pid or self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
        return int(line.split()[1]) / 1024

    def get(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_seconds: float = ANSWER_SECONDS,
    ) -> tuple[int, str]:
        request = urllib.request.Request(self._url(path), headers=dict(headers or {}))  # noqa: S310
        return self._open(request, timeout_seconds)

    def post(
        self,
        path: str,
        body: object,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_seconds: float = ANSWER_SECONDS,
    ) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self._url(path), data, dict(headers or {}))  # noqa: S310
        status, text = self._open(request, timeout_seconds)
        return status, json.loads(text)

    def stream(self, path: str, body: object) -> tuple[HTTPConnection, HTTPResponse]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        connection.request("POST", path, json.dumps(body))
        return connection, connection.getresponse()

    def metric(self, name: str, **labels: str) -> float:
        found = self.find(name, **labels)
        assert found is not None, f"no {name} in /metrics"
        return found

    def find(self, name: str, **labels: str) -> float | None:
        return _value(self.get("/metrics")[1], name, labels)

    def wait_for(self, name: str, value: float, **labels: str) -> None:
        wait_for_value(
            lambda: self.find(name, **labels),
            lambda found: found == value,
            f"{name} did not become {value}",
        )

    def wait_for_sum(
        self, name: str, value: float, series: Sequence[dict[str, str]]
    ) -> None:
        def total() -> float:
            _, page = self.get("/metrics")
            return sum(_value(page, name, each) or 0 for each in series)

        wait_for_value(
            total,
            lambda found: found == value,
            f"{name} did not add up to {value}",
        )

    def wait_for_any(self, name: str, **labels: str) -> None:
        wait_for_value(lambda: self.find(name, **labels), bool, f"{name} is still 0")

    def log_with(self, *parts: str, count: int = 1) -> str:
        """Returns the log once each of these is there as often: a thread writes it."""
        return wait_for_value(
            self.log.read_text,
            lambda text: all(text.count(part) >= count for part in parts),
            f"{parts} did not come into the log",
        )

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        wait_until(lambda: self.process.poll() is not None, "the server does not end")
        return self.process.wait()

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def _open(
        self, request: urllib.request.Request, timeout_seconds: float
    ) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(request, timeout=timeout_seconds) as response:  # noqa: S310
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


def _value(page: str, name: str, labels: Mapping[str, str]) -> float | None:
    for line in page.splitlines():
        if line.startswith((f"{name}{{", f"{name} ")) and all(
            f'{key}="{value}"' in line for key, value in labels.items()
        ):
            return float(line.rsplit(" ", 1)[1])
    return None


def engine_of(pid: int) -> int:
    """Process id of the engine of a server, or of the first of several."""
    engines = engines_of(pid)
    assert engines, "the server has no engine process"
    return engines[min(engines)]


def engines_of(pid: int) -> dict[int, int]:
    """Process id of each engine of a server, by the engine's index."""
    found = {}
    for child in children_of(pid):
        words = _read(Path(f"/proc/{child}/cmdline")).split(b"\0")
        for at, word in enumerate(words[:-2]):
            if word.endswith(b"engine_process"):
                found[int(words[at + 2])] = child
    return found


def children_of(pid: int) -> set[int]:
    """Process ids of the children of a process, but for one that only forks others."""
    return {
        child
        for path in Path(f"/proc/{pid}/task").glob("*/children")
        for child in map(int, _read(path).split())
        if _read(Path(f"/proc/{child}/comm")).strip() != NAME.encode()
    }


def api_servers_of(pid: int) -> list[int]:
    """Process ids of the API servers of a parent, oldest first."""
    return sorted(
        child
        for child in children_of(pid)
        if b"hookline_server.api_servers.child" in _read(Path(f"/proc/{child}/cmdline"))
    )


def descendants_of(pid: int) -> set[int]:
    """Process ids of all children of a process, and of theirs."""
    found: set[int] = set()
    for child in children_of(pid):
        found |= {child} | descendants_of(child)
    return found


def _read(path: Path) -> bytes:
    """Reads a file of a process or thread that may have ended meanwhile."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return path.read_bytes()
    return b""


def _listening_ports(pid: int) -> list[int]:
    """Returns the TCP ports over IPv4 that a process listens on."""
    sockets = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            sockets.add(str(path.readlink()))
    _, *lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()
    rows = (line.split() for line in lines)
    return [
        int(row[1].rpartition(":")[2], 16)
        for row in rows
        if row[3] == _LISTENS and f"socket:[{row[9]}]" in sockets
    ]


@contextmanager
def serving(
    *argv: str,
    is_awaited: bool = True,
    environment: Mapping[str, str] | None = None,
    limits: Mapping[int, int] | None = None,
    stderr: int | None = None,
    is_forked: bool = True,
    python: str | Path = sys.executable,
) -> Iterator[Server]:
    """Runs `hookline serve` with these arguments; kills it in the end if it runs.

    Args:
        argv: The arguments.
        is_awaited: Whether to wait until the server is ready.
        environment: Variables added to this process's environment.
        limits: Limits of resources, such as `resource.RLIMIT_NOFILE`, by their number.
        stderr: File descriptor of standard error; None for the file `Server.log`.
        is_forked: Whether it may be a fork of a process that has done its imports. A
            server with limits, another interpreter or variables that imports read is a
            new process.
        python: The interpreter, with the packages that it sees.
    """
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with (
            log.open("w") as errors,
            _started(
                [str(python), "-m", "hookline_server", "serve", *argv],
                errors.fileno() if stderr is None else stderr,
                variables,
                limits or {},
                is_forked=is_forked and python == sys.executable,
            ) as process,
        ):
            server = Server(process, log)
            try:
                if is_awaited:
                    server.wait_until_ready()
                yield server
            finally:
                if process.poll() is None:
                    process.kill()


def _started(
    command: Sequence[str],
    stderr: int,
    variables: Mapping[str, str],
    limits: Mapping[int, int],
    *,
    is_forked: bool,
) -> subprocess.Popen[str] | ForkedProcess:
    late = may_be_late(variables, _VARIABLES)
    if is_forked and not limits and late is not None:
        return _fork_server().start(command[3:], stderr, late)
    return subprocess.Popen(  # noqa: S603 - the test names the command
        command,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=variables,
        preexec_fn=_limiting(limits),  # noqa: PLW1509
    )


@cache
def _fork_server() -> ForkServer:
    return ForkServer(_VARIABLES)


def _limiting(limits: Mapping[int, int]) -> Callable[[], None] | None:
    if not limits:
        return None

    def limit() -> None:
        for number, value in limits.items():
            resource.setrlimit(number, (value, value))

    return limit
