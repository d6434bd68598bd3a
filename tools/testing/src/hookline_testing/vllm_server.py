"""`vllm serve` as a process: plain, or with Hookline attached."""

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from hookline_testing.own_time import Deadline
from hookline_testing.server_process import descendants_of

VENV = os.environ.get("HOOKLINE_VLLM_VENV", "")
MODEL = os.environ.get("HOOKLINE_VLLM_MODEL", "")
START_SECONDS = 300.0
_STOP_SECONDS = 30.0
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}


class VllmServer:
    """A running `vllm serve`, whose model is called `tiny`.

    Attributes:
        process: What was started.
        port: Where it listens.
        log: Its output.
    """

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log

    def get(self, path: str) -> tuple[int, str]:
        made = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with closing(made) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()

    def post(
        self, path: str, body: Mapping[str, Any], **headers: str
    ) -> tuple[int, Any]:
        made = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        told = {"Content-Type": "application/json", **headers}
        with closing(made) as connection:
            connection.request("POST", path, json.dumps(body), told)
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text else None

    def is_ready(self) -> bool:
        try:
            return self.get("/health")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def ask(
        self, number: int, *, tokens: int, reads: int | None = None, **fields: Any
    ) -> int:
        """Streams a completion; leaves after `reads` chunks. Returns its tokens."""
        body = {
            "model": "tiny",
            "prompt": f"def number_{number}(value):",
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            **fields,
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

    def figures(self, path: str = "/hookline/metrics") -> Mapping[str, float]:
        """Sums of the samples of a page, by name and reason."""
        status, text = self.get(path)
        assert status == 200, text
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                reason = sample.labels.get("finished_reason") or sample.labels.get(
                    "reason", ""
                )
                name = f"{sample.name}{{{reason}}}" if reason else sample.name
                found[name] = found.get(name, 0.0) + sample.value
        return found

    def pid_of(self, title: str) -> int:
        """Returns the process below it whose title or command has `title`."""
        for pid in descendants_of(self.process.pid):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            if title.encode() in command:
                return pid
        raise AssertionError(f"no process {title}")


@contextmanager
def vllm_serving(
    folder: Path, *options: str, **environment: str
) -> Iterator[VllmServer]:
    """Runs `vllm serve` as long as the block.

    Args:
        folder: Gets its log; modules in it can be imported.
        options: Additional options.
        environment: Environment variables; without `VLLM_PLUGINS` it is plain.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {
        **os.environ,
        **OFFLINE,
        "PYTHONPATH": str(folder),
        "VLLM_PLUGINS": "",
        **environment,
    }
    command = [
        *(str(Path(VENV, "bin", "vllm")), "serve", MODEL, "--served-model-name"),
        *("tiny", "--port", str(port), "--max-model-len", "512", "--dtype", "float32"),
        *("--enforce-eager", *options),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - of the environment under test
            command, env=variables, stdout=log, stderr=log, start_new_session=True
        )
    made = VllmServer(process, port, folder / "log")
    try:
        patience = Deadline(START_SECONDS)
        while not made.is_ready() and process.poll() is None and patience.is_ahead:
            time.sleep(0.5)
        assert process.poll() is None, made.log.read_text("utf-8", "replace")
        yield made
    finally:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
        with suppress(ProcessLookupError):  # what it has left
            os.killpg(process.pid, signal.SIGKILL)
