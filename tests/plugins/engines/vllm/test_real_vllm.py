"""Attached to a real vLLM: its numbers, ours, and the truth of the clients.

`make test-vllm VENV=FOLDER` runs it on the vLLM that is installed in FOLDER.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hookline_testing.own_time import Deadline
from hookline_testing.waiting import wait_until

VENV = os.environ.get("HOOKLINE_VLLM_VENV", "")
MODEL = os.environ.get("HOOKLINE_VLLM_MODEL", "")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not VENV, reason="only in `make test-vllm`"),
]
MAX_TOKENS = 16
START_SECONDS = 300.0
HARM = """
import threading
from hookline import hookimpl

class Raising:
    def __init__(self, context): pass
    @hookimpl
    def state_changed(self, state): raise RuntimeError("no")

class Hanging:
    def __init__(self, context): pass
    @hookimpl
    def state_changed(self, state): threading.Event().wait()
"""


class Server:
    """`vllm serve` with Hookline attached."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str) -> tuple[int, str]:
        made = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with closing(made) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()

    def is_ready(self) -> bool:
        try:
            return self.get("/health")[0] == 200
        except OSError:
            return False

    def ask(self, number: int, *, tokens: int, reads: int | None = None) -> int:
        """Streams a completion; leaves after `reads` chunks. Returns its tokens."""
        body = {
            "model": "tiny",
            "prompt": f"def number_{number}(value):",
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        headers = {"Content-Type": "application/json", "X-Request-Id": f"r-{number}"}
        got = 0
        made = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with closing(made) as connection:
            connection.request("POST", "/v1/completions", json.dumps(body), headers)
            with closing(connection.getresponse()) as response:
                for chunks, line in enumerate(response):
                    if line.startswith(b"data: {"):
                        got = json.loads(line[6:])["usage"]["completion_tokens"]
                    if chunks == reads:
                        break
        return got

    def figures(self, path: str) -> Mapping[str, float]:
        """Sums of the samples of a page, by name and reason."""
        status, text = self.get(path)
        assert status == 200
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                reason = sample.labels.get("finished_reason") or sample.labels.get(
                    "reason", ""
                )
                name = f"{sample.name}{{{reason}}}" if reason else sample.name
                found[name] = found.get(name, 0.0) + sample.value
        return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose loggers are ours, one that raises and one that hangs."""
    folder = tmp_path_factory.mktemp("vllm")
    (folder / "harm.py").write_text(HARM)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "VLLM_PLUGINS": "hookline",
        "HOOKLINE_STAT_LOGGERS": "prometheus,insight,harm:Raising,harm:Hanging",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    command = [
        *(str(Path(VENV, "bin", "vllm")), "serve", MODEL, "--served-model-name"),
        *("tiny", "--port", str(port), "--max-model-len", "512", "--dtype", "float32"),
        *("--enforce-eager",),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environ, stdout=log, stderr=log, start_new_session=True
        )
    made = Server(port)
    try:
        patience = Deadline(START_SECONDS)
        while not made.is_ready() and process.poll() is None and patience.is_ahead:
            time.sleep(0.5)
        assert process.poll() is None, (folder / "log").read_text("utf-8", "replace")
        yield made
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def test_numbers_are_the_clients_truth(server: Server) -> None:
    """vLLM counts no client that has left; what else differs would be a mistake."""
    with ThreadPoolExecutor(8) as pool:
        whole = list(pool.map(lambda n: server.ask(n, tokens=MAX_TOKENS), range(22)))
    left = [server.ask(22 + n, tokens=400, reads=6) for n in range(2)]

    def is_told() -> bool:
        found = server.figures("/hookline/metrics")
        return found["hookline_requests_finished_total{abort}"] == 2

    wait_until(is_told, "the requests do not end")
    ours, theirs = server.figures("/hookline/metrics"), server.figures("/metrics")
    finished, success = "hookline_requests_finished_total", "vllm:request_success_total"
    tokens, generated = (
        "hookline_generation_tokens_total",
        "vllm:generation_tokens_total",
    )
    table = [
        ("requests", None, ours["hookline_requests_received_total"], 24),
        ("length", theirs[f"{success}{{length}}"], ours[f"{finished}{{length}}"], 22),
        ("abort", theirs[f"{success}{{abort}}"], ours[f"{finished}{{abort}}"], 2),
        ("running", None, ours["hookline_requests_running"], 0),
        ("tokens", theirs[generated], ours[tokens], None),
    ]
    for row in table:
        print(*row, sep="\t")  # noqa: T201 - the table
    assert sum(whole) == 22 * MAX_TOKENS
    assert all(own == true for _, _, own, true in table if true is not None)
    assert theirs[f"{success}{{abort}}"] == 0  # vLLM's fault
    assert theirs[generated] == ours[tokens] >= sum(whole) + sum(left)
    assert server.is_ready()


def test_slow_request_is_explained(server: Server) -> None:
    """The steps of the engine's process are in the flight recorder's ring."""
    server.ask(50, tokens=MAX_TOKENS)

    status, text = server.get("/hookline/why/cmpl-r-50-0")

    assert status == 200
    assert f"({MAX_TOKENS} tokens)" in text
    assert "prefill" in text
