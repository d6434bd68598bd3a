"""Starts a `hookline serve`, waits until it is ready, and ends it."""

import http.client
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hookline.exceptions import ModelLoadError
from hookline.model_description import find_folder
from hookline_processes.python import python_command, python_environment
from hookline_server.cli.errors import UsageError
from hookline_server.cli.metrics_tools.page import read_page
from hookline_server.listening import listen

HOST = "127.0.0.1"
POLL_SECONDS = 0.02
END_SECONDS = 60.0
OK = 200

CACHE_VARIABLES = (
    "NUMBA_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "XDG_CACHE_HOME",
)
"""Folders of compiled code; a cold start gets empty ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that is ready.

    Attributes:
        port: Its port on this machine.
        seconds: Time from its command to its readiness.
    """

    port: int
    seconds: float

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{HOST}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Duration of a start, in seconds.

    Attributes:
        phases: Durations of the engine's startup phases.
    """

    seconds: float
    phases: Mapping[str, float]


def warm_start(argv: Sequence[str], most_seconds: float) -> Start:
    """Measures a start with the caches of earlier starts.

    Raises:
        UsageError: The server ends, or is not ready in time.
    """
    return _start(argv, os.environ, most_seconds)


def cold_start(argv: Sequence[str], most_seconds: float) -> Start:
    """Measures a start with empty caches of compiled code and a cold page cache.

    Only the model's files are dropped from the page cache, not those of libraries.

    Raises:
        UsageError: The server ends, or is not ready in time.
    """
    _forget_model(argv)
    with tempfile.TemporaryDirectory() as folder:
        empty = {name: f"{folder}/{name.lower()}" for name in CACHE_VARIABLES}
        return _start(argv, {**os.environ, **empty}, most_seconds)


def _start(
    argv: Sequence[str], environment: Mapping[str, str], most_seconds: float
) -> Start:
    with started(argv, most_seconds, environment) as server:
        return Start(seconds=server.seconds, phases=_phases(server.port))


@contextmanager
def started(
    argv: Sequence[str], most_seconds: float, environment: Mapping[str, str]
) -> Iterator[Server]:
    """Runs a server with these options for a block of code, once it is ready.

    Raises:
        UsageError: The server ends, or is not ready in time.
    """
    port = _free_port()
    command = python_command("-m", "hookline_server", "serve", *argv)
    # The last ones win.
    command += ["--host", HOST, "--port", str(port)]
    with tempfile.TemporaryFile("w+") as log:
        began = time.perf_counter()
        with _running(command, environment, log) as server:
            while not _is_ready(port):
                if server.poll() is not None:
                    raise UsageError(_last_line(log))
                if time.perf_counter() - began > most_seconds:
                    raise UsageError(
                        f"the server is not ready after {most_seconds:g} s"
                    )
                time.sleep(POLL_SECONDS)
            yield Server(port=port, seconds=time.perf_counter() - began)


@contextmanager
def _running(
    command: Sequence[str], environment: Mapping[str, str], log: IO[str]
) -> Iterator[subprocess.Popen[bytes]]:
    server = subprocess.Popen(  # noqa: S603 - our own command
        command,
        env=python_environment(environment),
        stdout=subprocess.DEVNULL,
        stderr=log,
    )
    try:
        yield server
    finally:
        server.terminate()
        try:
            server.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _is_ready(port: int) -> bool:
    return _get(port, "/health/ready") is not None


def _phases(port: int) -> dict[str, float]:
    """Reads the startup phases from /metrics; empty without such a page."""
    page = _get(port, "/metrics")
    if page is None:
        return {}
    return {
        sample.labels["phase"]: sample.value
        for sample in read_page(page, "/metrics").samples
        if sample.name == "hookline_startup_seconds"
    }


def _get(port: int, path: str) -> str | None:
    """Returns a page, or None if the response is not 200."""
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return text if response.status == OK else None


def _free_port() -> int:
    with listen(HOST, 0) as free:
        port: int = free.getsockname()[1]
        return port


def _last_line(log: IO[str]) -> str:
    log.seek(0)
    lines = log.read().splitlines() or ["the server ended without a message"]
    return lines[-1].removeprefix("hookline: error: ")


def _forget_model(argv: Sequence[str]) -> None:
    """Drops the model's files from the page cache."""
    for path in _model_files(argv):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _model_files(argv: Sequence[str]) -> list[Path]:
    words = [word for text in argv for word in text.split("=", 1)]
    name = "demo"
    if "--model" in words[:-1]:
        name = words[words.index("--model") + 1]
    try:
        folder = find_folder(name)
    except ModelLoadError:
        return []  # the server reports it
    return [path for path in folder.rglob("*") if path.is_file()]
