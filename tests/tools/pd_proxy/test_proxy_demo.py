"""`hookline route --demo`: three processes, started and ended by one command."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hookline_testing.essential import essential
from hookline_testing.own_time import Deadline

PROMPT = "def read_lines(path):\n    " * 12
BODY = {"model": "demo", "prompt": PROMPT, "max_tokens": 16, "temperature": 0}


class Demo:
    """A running demo.

    Attributes:
        urls: Of the prefill instance, the decode instance and the route.
    """

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.log = log
        self.urls: list[str] = []

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word in ("prefill", "decode", "API"):
                self.urls.append(rest.strip().removesuffix("/v1"))
            if word == "health":
                return
        raise AssertionError(self.log.read_text())

    def instances(self) -> list[int]:
        """Process ids, of the prefill instance first."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sorted(map(int, children))

    def complete(self, url: str) -> Any:
        request = urllib.request.Request(  # noqa: S310
            f"{url}/v1/completions", json.dumps(BODY).encode()
        )
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
            return json.loads(response.read())

    def metric(self, url: str, name: str) -> float:
        with urllib.request.urlopen(f"{url}/metrics", timeout=60) as response:  # noqa: S310
            page = response.read().decode()
        values = [
            line.rsplit(" ", 1)[1]
            for line in page.splitlines()
            if line.startswith((f"{name} ", f"{name}{{"))
        ]
        return sum(map(float, values))

    def wait_for(self, url: str, name: str, value: float) -> None:
        """Loggers hear of steps a little later than clients."""
        deadline = Deadline(60)
        while self.metric(url, name) != value:
            assert deadline.is_ahead, f"{name} did not become {value}"
            time.sleep(0.05)


@contextmanager
def demo(tmp_path: Path, *options: str) -> Iterator[Demo]:
    command = [sys.executable, "-m", "hookline_server", "route", "--demo", "--port=0"]
    log = tmp_path / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        ) as process,
    ):
        try:
            yield Demo(process, log)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(60)


def are_gone(pids: list[int]) -> bool:
    return not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.exhaustive
def test_demo_reports_why_it_ends(tmp_path: Path) -> None:
    """What an instance complained of is the command's one error, and its status 1."""
    with demo(tmp_path, "--model", "there-is-none") as running:
        status = running.process.wait(60)

    last = running.log.read_text().splitlines()[-1]
    assert status == 1
    assert last.startswith("hookline: error: the ")
    assert "instance ended with status" in last
    assert "there-is-none" in last


@pytest.mark.slow
def test_demo_from_begin_to_end(tmp_path: Path) -> None:
    """KV is transferred; a hanging and a dead prefill instance are reported."""
    options = "--dtype=float32", "--num-kv-blocks=256", "--prefill-timeout=5"
    with demo(tmp_path, *options) as running:
        running.wait_until_ready()
        prefill, decode, route = running.urls
        pids = running.instances()

        answer = running.complete(route)
        expected = running.complete(prefill)
        assert answer["choices"] == expected["choices"]
        running.wait_for(decode, "hookline_transferred_tokens_total", 96)

        os.kill(pids[0], signal.SIGSTOP)
        assert running.complete(route)["choices"] == expected["choices"]
        assert running.metric(route, "hookline_route_fallbacks_total") == 1

        os.kill(pids[0], signal.SIGKILL)
        status = running.process.wait(60)

    assert status == 1
    last = running.log.read_text().splitlines()[-1]
    assert "the prefill instance ended with status -9" in last
    assert are_gone(pids)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "number", essential([signal.SIGTERM, signal.SIGINT], signal.SIGINT)
)
def test_signal_ends_all(tmp_path: Path, number: signal.Signals) -> None:
    """Nothing is left of the three, and that is no error."""
    with demo(tmp_path, "--executor=simulated") as running:
        running.wait_until_ready()
        pids = running.instances()
        running.process.send_signal(number)
        status = running.process.wait(60)

    assert status == 0
    assert len(pids) == 2
    assert are_gone(pids)


def test_signal_while_instances_load_ends_all(tmp_path: Path) -> None:
    """The command need not be ready to be ended."""
    with demo(tmp_path, "--num-kv-blocks=256") as running:
        deadline = Deadline(30)
        while len(running.instances()) < 2:
            assert deadline.is_ahead
            time.sleep(0.02)
        pids = running.instances()
        running.process.terminate()
        status = running.process.wait(60)

    assert status == 0
    assert are_gone(pids)
