"""A real vLLM below Hookline's front end, beside `vllm serve`.

`make test-vllm VENV=FOLDER` runs it on the vLLM that is installed in FOLDER, with
hookline-vllm-engine and hookline-server.
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hookline_testing.own_time import Deadline
from hookline_testing.server_process import children_of, engine_of
from hookline_testing.waiting import wait_until

VENV = os.environ.get("HOOKLINE_VLLM_VENV", "")
MODEL = os.environ.get("HOOKLINE_VLLM_MODEL", "")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not VENV, reason="only in `make test-vllm`"),
]
START_SECONDS = 300.0
ARGUMENTS = ("--max-model-len", "512", "--dtype", "float32", "--enforce-eager")
PROMPTS = [f"def number_{number}(value):\n    return" for number in range(6)]


class Server:
    """A server with the OpenAI API in a process."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self.port = port
        self.process = process

    def ask(self, path: str, body: object = None) -> tuple[int, Any]:
        made = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        with closing(made) as connection:
            method, text = "GET", None
            if body is not None:
                method, text = "POST", json.dumps(body)
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            return response.status, response.read().decode()

    def is_ready(self) -> bool:
        assert self.process.poll() is None, "the server has ended"
        try:
            return bool(self.ask("/health")[0] == 200)
        except OSError:
            return False

    def complete(self, **fields: object) -> tuple[int, Any]:
        """Completes a prompt greedily, unless `fields` say otherwise."""
        body = {"model": "tiny", "temperature": 0, "max_tokens": 12, **fields}
        status, text = self.ask("/v1/completions", body)
        return status, json.loads(text)

    def figure(self, name: str, **labels: str) -> float:
        _, text = self.ask("/metrics")
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


def wait_long(holds: Callable[[], bool]) -> None:
    """Waits for vLLM to load a model."""
    deadline = Deadline(START_SECONDS)
    while not holds():
        assert deadline.is_ahead, "vLLM does not start"
        time.sleep(0.5)


@contextmanager
def served(folder: Path, *command: str) -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    whole = [part.replace("PORT", str(port)) for part in command]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(whole, env=environ, stdout=log, stderr=log)
        try:
            server = Server(port, process)
            wait_long(server.is_ready)
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Hookline's server on vLLM's engine core."""
    with served(
        tmp_path_factory.mktemp("hookline"),
        *(str(Path(VENV, "bin", "hookline")), "serve", "--engine", "vllm"),
        *("--model", MODEL, "--served-model-name", "tiny", "--port", "PORT"),
        # vLLM compiles what it needs for log-probabilities at their first use.
        *("--engine-restart", "2", "--step-timeout", "300", "--", *ARGUMENTS),
    ) as found:
        yield found


def test_greedy_tokens_are_those_of_vllm_serve(
    server: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And so are their log-probabilities, and the reasons of the ends."""
    asked = {"logprobs": 2, "return_token_ids": True}
    ours = [server.complete(prompt=each, **asked)[1] for each in PROMPTS]

    with served(
        tmp_path_factory.mktemp("vllm"),
        *(str(Path(VENV, "bin", "vllm")), "serve", MODEL),
        *("--served-model-name", "tiny", "--port", "PORT", *ARGUMENTS),
    ) as plain:
        theirs = [plain.complete(prompt=each, **asked)[1] for each in PROMPTS]

    for mine, other in zip(ours, theirs, strict=True):
        [found], [wanted] = mine["choices"], other["choices"]
        assert found["token_ids"] == wanted["token_ids"]
        assert found["finish_reason"] == wanted["finish_reason"]
        assert found["text"] == wanted["text"]
        logprobs = wanted["logprobs"]["token_logprobs"]
        assert found["logprobs"]["token_logprobs"] == pytest.approx(logprobs, abs=1e-4)


def test_parameters_reach_vllm(server: Server) -> None:
    """Grammars, biases, seeds and prompts' log-probabilities."""
    number = {"regex": "[0-9]{3}"}
    _, digits = server.complete(prompt="x = ", structured_outputs=number)
    _, biased = server.complete(
        prompt="x = ", logit_bias={"5": 100}, return_token_ids=True, max_tokens=3
    )
    twice = [
        server.complete(prompt="x = ", temperature=1, seed=3, n=2)[1] for _ in range(2)
    ]

    assert re.fullmatch("[0-9]{3}", digits["choices"][0]["text"])
    assert biased["choices"][0]["token_ids"] == [5, 5, 5]
    texts = [[each["text"] for each in found["choices"]] for found in twice]
    assert texts[0] == texts[1]
    assert texts[0][0] != texts[0][1]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"structured_outputs": {"regex": "[0-9"}}, "structured_outputs"),
        ({"kv_transfer_params": {"a": 1}}, "kv_transfer_params"),
    ],
)
def test_what_vllm_refuses_is_a_400(
    server: Server, fields: dict[str, object], param: str
) -> None:
    """Which names the field."""
    status, answer = server.complete(prompt="x = ", **fields)

    assert status == 400
    assert answer["error"]["param"] == param


def test_a_client_that_leaves_is_counted(server: Server) -> None:
    """As an abort; nothing runs afterwards, and nothing is left out."""
    name = "hookline_requests_finished_total"
    before = server.figure(name, reason="abort")
    made = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    with closing(made) as connection:
        body = {
            "model": "tiny",
            "prompt": "x",
            "max_tokens": 400,
            "ignore_eos": True,
            "stream": True,
        }
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        with closing(connection.getresponse()) as response:
            response.readline()

    wait_until(
        lambda: server.figure(name, reason="abort") == before + 1,
        "the abort is not counted",
    )
    assert server.figure("hookline_requests_running") == 0
    assert server.figure("hookline_conservation_residue") == 0


def test_a_dead_engine_is_replaced(server: Server) -> None:
    """Whatever ends vLLM's worker ends the engine, and a new one answers."""
    for pid in children_of(engine_of(server.process.pid)):
        os.kill(pid, signal.SIGKILL)
    status, _ = server.complete(prompt="x = ")
    wait_long(lambda: server.complete(prompt="x = ")[0] == 200)

    assert status in {200, 500, 503}
    assert server.figure("hookline_conservation_residue") == 0
