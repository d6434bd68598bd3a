"""`hookline serve` as a process, and requests to it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import IO, Any


class Server:
    """A running `hookline serve`."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
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

    def get(self, path: str) -> tuple[int, str]:
        return self._open(urllib.request.Request(self._url(path)))  # noqa: S310

    def post(self, path: str, body: object) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self._url(path), data)  # noqa: S310
        status, text = self._open(request)
        return status, json.loads(text)

    def stream(self, path: str, body: object) -> tuple[HTTPConnection, HTTPResponse]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", path, json.dumps(body))
        return connection, connection.getresponse()

    def metric(self, name: str, **labels: str) -> float:
        found = self.find(name, **labels)
        assert found is not None, f"no {name} in /metrics"
        return found

    def find(self, name: str, **labels: str) -> float | None:
        _, text = self.get("/metrics")
        for line in text.splitlines():
            if line.startswith(f"{name}{{") and all(
                f'{key}="{value}"' in line for key, value in labels.items()
            ):
                return float(line.rsplit(" ", 1)[1])
        return None

    def wait_for(self, name: str, value: float, **labels: str) -> None:
        deadline = time.monotonic() + 30
        while self.find(name, **labels) != value:
            assert time.monotonic() < deadline, f"{name} did not become {value}"
            time.sleep(0.05)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def _open(self, request: urllib.request.Request) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@contextmanager
def serving(*argv: str, is_awaited: bool = True) -> Iterator[Server]:
    """Runs `hookline serve` with these arguments; kills it in the end if it runs."""
    command = [sys.executable, "-m", "hookline_server", "serve", *argv]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("w") as errors, _started(command, errors) as process:
            server = Server(process, log)
            try:
                if is_awaited:
                    server.wait_until_ready()
                yield server
            finally:
                if process.poll() is None:
                    process.kill()


@contextmanager
def _started(command: list[str], errors: IO[str]) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(  # noqa: S603 - the test names the command
        command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
    ) as process:
        yield process
