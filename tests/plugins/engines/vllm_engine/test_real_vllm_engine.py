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
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from prometheus_client.parser import text_string_to_metric_families
from safetensors.numpy import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

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
RANK = 8
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
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA adapter, in the files of PEFT, that changes what is said."""
    folder = tmp_path_factory.mktemp("adapter")
    about = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "bias": "none",
        "r": RANK,
        "lora_alpha": 64,
        "target_modules": ["q_proj", "o_proj"],
    }
    (folder / "adapter_config.json").write_text(json.dumps(about))
    model = json.loads(Path(MODEL, "config.json").read_text())
    width = model["hidden_size"]
    heads = model["num_attention_heads"] * model["head_dim"]
    random, weights = np.random.default_rng(0), {}
    for layer in range(model["num_hidden_layers"]):
        for name, read, made in (("q_proj", width, heads), ("o_proj", heads, width)):
            stem = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            for part, shape in (("A", (RANK, read)), ("B", (made, RANK))):
                values = random.normal(size=shape).astype(np.float32)
                weights[f"{stem}.lora_{part}.weight"] = values
    save_file(weights, folder / "adapter_model.safetensors")
    return folder


def with_adapter(adapter: Path) -> tuple[str, ...]:
    """VLLM's options for an adapter."""
    limits = ("--enable-lora", "--max-lora-rank", str(RANK))
    return (*ARGUMENTS, *limits, "--lora-modules", f"other={adapter}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, adapter: Path) -> Iterator[Server]:
    """Hookline's server on vLLM's engine core."""
    with served(
        tmp_path_factory.mktemp("hookline"),
        *(str(Path(VENV, "bin", "hookline")), "serve", "--engine", "vllm"),
        *("--model", MODEL, "--served-model-name", "tiny", "--port", "PORT"),
        # vLLM compiles what it needs for log-probabilities at their first use.
        *("--engine-restart", "2", "--step-timeout", "300", "--enable-sleep-mode"),
        *("--", *with_adapter(adapter)),
    ) as found:
        yield found


def test_greedy_tokens_are_those_of_vllm_serve(
    server: Server, tmp_path_factory: pytest.TempPathFactory, adapter: Path
) -> None:
    """And so are their log-probabilities, the ends, and what an adapter says."""
    asked = {"logprobs": 2, "return_token_ids": True}
    ours = [server.complete(prompt=each, **asked)[1] for each in PROMPTS]
    ours += [server.complete(prompt=PROMPTS[0], model="other", **asked)[1]]

    with served(
        tmp_path_factory.mktemp("vllm"),
        *(str(Path(VENV, "bin", "vllm")), "serve", MODEL),
        *("--served-model-name", "tiny", "--port", "PORT"),
        *with_adapter(adapter),
    ) as plain:
        theirs = [plain.complete(prompt=each, **asked)[1] for each in PROMPTS]
        other = {"prompt": PROMPTS[0], "model": "other", **asked}
        theirs += [plain.complete(**other)[1]]

    assert ours[-1]["choices"] != ours[0]["choices"]
    for mine, told in zip(ours, theirs, strict=True):
        [found], [wanted] = mine["choices"], told["choices"]
        assert mine["model"] == told["model"]
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


def test_an_adapter_is_listed_with_its_model(server: Server) -> None:
    """And another name is neither."""
    _, text = server.ask("/v1/models")
    status, answer = server.complete(prompt="x", model="neither")

    cards = [(each["id"], each.get("parent")) for each in json.loads(text)["data"]]
    assert cards == [("tiny", None), ("other", "tiny")]
    assert (status, answer["error"]["param"]) == (404, "model")


@pytest.mark.parametrize(("level", "mode"), [(1, "keep"), (2, "wait"), (1, "abort")])
def test_a_sleeping_engine_keeps_what_comes(
    server: Server, level: int, mode: str
) -> None:
    """Until it wakes up; weights that were released are loaded again."""
    before = server.complete(prompt=PROMPTS[1])[1]
    status, text = server.ask(f"/sleep?level={level}&mode={mode}", {})
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(server.complete, prompt=PROMPTS[1])
        wait_until(
            lambda: server.figure("hookline_requests_waiting") == 1,
            "the request does not wait",
        )
        asleep = json.loads(server.ask("/is_sleeping")[1])
        woken = server.ask("/wake_up", {})[0]
        after = late.result(60)[1]

    assert (status, json.loads(text)) == (200, {"is_sleeping": True, "level": level})
    assert asleep == {"is_sleeping": True, "level": level}
    assert woken == 200
    assert after["choices"][0]["text"] == before["choices"][0]["text"]
    assert server.figure("hookline_conservation_residue") == 0


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


def test_embeddings_are_those_of_transformers(tmp_path: Path) -> None:
    """The last token's hidden state, of length 1; texts are not completed."""
    with served(
        tmp_path,
        *(str(Path(VENV, "bin", "hookline")), "serve", "--engine", "vllm"),
        *("--model", MODEL, "--served-model-name", "tiny", "--port", "PORT"),
        *("--", *ARGUMENTS, "--runner", "pooling"),
    ) as embedding:
        body = {"model": "tiny", "input": PROMPTS[:3]}
        status, text = embedding.ask("/v1/embeddings", body)
        refused, answer = embedding.complete(prompt="x")
        name = "hookline_requests_finished_total"
        figures = [
            embedding.figure(name) - embedding.figure(name, reason="rejected"),
            embedding.figure("hookline_conservation_residue"),
        ]

    assert status == 200, text
    found = [each["embedding"] for each in json.loads(text)["data"]]
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    for prompt, vector in zip(PROMPTS, found, strict=False):
        ids = torch.tensor([tokenizer.encode(prompt)])
        with torch.inference_mode():
            state = model.model(ids).last_hidden_state[0, -1]
        wanted = torch.nn.functional.normalize(state, dim=0).tolist()
        assert vector == pytest.approx(wanted, abs=1e-4)
    assert (refused, "only embeds" in answer["error"]["message"]) == (400, True)
    assert figures == [3, 0]
