"""`hookline serve` as a process, with the demo model."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from hookline_testing.own_time import Deadline
from hookline_testing.server_process import Server, serving

START_SECONDS = 120.0
BODY = {"model": "demo", "prompt": "def main(", "max_tokens": 8, "temperature": 0}
ENDLESS = {**BODY, "max_tokens": 2000, "ignore_eos": True}


SLOW_STEPS = ("--executor=simulated", "--simulated-step-seconds=0.05")
"""With these `ENDLESS` takes more than a minute, whatever else the machine does."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # Answers are compared, so the same kernels compute all of them.
    with serving("--port=0", "--no-serve-while-compiling") as running:
        yield running


@pytest.fixture(scope="module")
def slow_server() -> Iterator[Server]:
    with serving("--port=0", *SLOW_STEPS) as running:
        yield running


def events(raw: bytes) -> list[Any]:
    *found, done, rest = raw.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    return [json.loads(event.removeprefix(b"data: ")) for event in found]


@pytest.mark.slow
def test_banner_shows_addresses() -> None:
    """
    When ready, the command prints its URLs, the model, and a line to try.
    """
    with serving("--port=0", is_forked=False) as server:
        root = f"http://127.0.0.1:{server.port}"
        status, answer = server.post("/v1/completions", BODY)

    assert "serves demo" in server.banner
    assert f"{root}/v1\n" in server.banner
    assert f"{root}/metrics\n" in server.banner
    assert f"{root}/health\n" in server.banner
    assert f"curl {root}/v1/completions" in server.banner
    assert status == 200
    assert answer["usage"]["completion_tokens"] == 8


def test_stream_equals_the_whole_answer(server: Server) -> None:
    """
    A greedy completion is the same text, streamed or whole.
    """
    _, whole = server.post("/v1/completions", BODY)
    connection, response = server.stream("/v1/completions", {**BODY, "stream": True})
    raw = response.read()
    connection.close()

    text = "".join(event["choices"][0]["text"] for event in events(raw))
    assert text
    assert text == whole["choices"][0]["text"]
    assert whole["usage"]["completion_tokens"] == 8


def test_chat_answers(server: Server) -> None:
    """
    The chat endpoint applies the model's template and answers.
    """
    body = {
        "model": "demo",
        "messages": [{"role": "user", "content": "Write a function."}],
        "max_completion_tokens": 4,
        "n": 2,
    }

    status, answer = server.post("/v1/chat/completions", body)

    assert status == 200
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert answer["usage"]["completion_tokens"] <= 8


def test_equal_prefix_is_cached(server: Server) -> None:
    """
    The second of two equal prompts reports cached tokens.
    """
    body = {**BODY, "prompt": "import os\n" * 50, "max_tokens": 1}

    server.post("/v1/completions", body)
    _, second = server.post("/v1/completions", body)

    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


def test_echoed_logprobs_cover_prompt_and_completion(server: Server) -> None:
    """
    Echo with log-probabilities covers every token of the text.
    """
    body = {**BODY, "echo": True, "logprobs": 2, "max_tokens": 3}

    _, answer = server.post("/v1/completions", body)

    (choice,) = answer["choices"]
    assert "".join(choice["logprobs"]["tokens"]) == choice["text"]
    assert choice["logprobs"]["token_logprobs"][0] is None


@pytest.mark.parametrize("is_streamed", [False, True])
def test_client_that_leaves_is_aborted(slow_server: Server, is_streamed: bool) -> None:
    """
    When a client leaves, its request ends and the running gauge goes back to 0.
    """
    name = "hookline_requests_finished_total"
    before = slow_server.metric(name, reason="abort")
    body = {**ENDLESS, "stream": is_streamed}

    connection = HTTPConnection("127.0.0.1", slow_server.port)
    connection.request("POST", "/v1/completions", json.dumps(body))
    slow_server.wait_for("hookline_requests_running", 1)
    connection.close()

    slow_server.wait_for("hookline_requests_running", 0)
    slow_server.wait_for(name, before + 1, reason="abort")


def test_http_requests_are_metered(slow_server: Server) -> None:
    """
    A request is in flight until its client has left, and is then counted as that.
    """
    name = "hookline_http_requests_total"
    # A route where no other client has left, for leavings are told a little later.
    path = "/v1/chat/completions"
    route = {"route": path, "method": "POST"}
    messages = [{"role": "user", "content": "Write a function."}]
    body = {**ENDLESS, "messages": messages, "stream": True}
    del body["prompt"]

    connection, response = slow_server.stream(path, body)
    response.readline()
    slow_server.wait_for("hookline_http_requests_in_flight", 1, **route)
    response.close()
    connection.close()

    slow_server.wait_for("hookline_http_requests_in_flight", 0, **route)
    slow_server.wait_for(name, 1, **route, status="client_disconnect")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\x00" * 1000, 400),
        ({**BODY, "model": "other"}, 404),
        ({**BODY, "max_tokens": "x"}, 400),
        ({**BODY, "prompt": [99999999]}, 400),
        ({**BODY, "prompt": [99999999], "echo": True}, 400),
        ({**BODY, "prompt": "x " * 20000}, 400),
        ({**BODY, "priority": 2**200}, 400),
        ({**BODY, "cache_salt": "a\u0000b"}, 200),
        ({**BODY, "bad_words": ["x"] * 1000}, 200),
        (b"x" * 9_000_000, 413),
    ],
    ids=[
        "cut JSON",
        "zeros",
        "other model",
        "wrong type",
        "unknown token",
        "unknown token echoed",
        "long prompt",
        "huge number",
        "zero in salt",
        "many bad words",
        "large body",
    ],
)
def test_invalid_requests_do_no_harm(server: Server, body: object, status: int) -> None:
    """
    Junk is answered in shape, and the next request is served.
    """
    found, answer = server.post("/v1/completions", body)
    healthy, _ = server.post("/v1/completions", BODY)

    assert found == status
    assert status == 200 or answer["error"]["message"]
    assert healthy == 200


def test_bytes_that_are_not_http_do_no_harm(server: Server) -> None:
    """
    A connection that does not speak HTTP is answered with a 400 and closed.
    """
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        answer = connection.recv(1000)

    assert answer.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
    assert server.get("/health")[0] == 200


def test_port_in_use_ends_before_the_model_loads(server: Server) -> None:
    """
    A second server on the port ends with one line and status 1, whatever its model.
    """
    command = [sys.executable, "-m", "hookline_server", "serve"]

    done = subprocess.run(
        [*command, f"--port={server.port}", "--model=/nonexistent"],
        capture_output=True,
        text=True,
        check=False,
        timeout=START_SECONDS,
    )

    assert done.returncode == 1
    assert done.stderr == (
        f"hookline: error: cannot listen on 127.0.0.1 port {server.port}: "
        "Address already in use\n"
    )


def test_missing_model_is_one_line() -> None:
    """
    A model that cannot be loaded ends the command with one line and status 1.
    """
    command = [sys.executable, "-m", "hookline_server", "serve", "--port=0"]

    done = subprocess.run(
        [*command, "--model=/nonexistent", "--stat-logger=none"],
        capture_output=True,
        text=True,
        check=False,
        timeout=START_SECONDS,
    )

    port, error = done.stderr.splitlines()
    assert done.returncode == 1
    assert "listening on http://127.0.0.1:" in port  # as it was free to choose
    assert error.startswith("hookline: error: cannot load model '/nonexistent'")


def test_server_lifecycle() -> None:
    """
    On SIGTERM a running request is finished, new ones are refused, and the end is 0.
    """
    argv = ("--port=0", "--simulated-step-seconds=0.02")
    with serving(*argv, "--in-process", "--executor=simulated") as server:
        body = {**ENDLESS, "max_tokens": 200, "stream": True}
        connection, response = server.stream("/v1/completions", body)
        response.readline()
        server.process.send_signal(signal.SIGTERM)
        refused = _status_until(server, 503)
        raw = b"data: " + response.read().split(b"data: ", 1)[1]
        connection.close()
        status = server.process.wait(60)
        log = server.log.read_text()

    assert re.search("shutting down: .* 30 s to finish .* open_requests=1", log)
    assert refused == 503
    assert events(raw)[-1]["choices"][0]["finish_reason"] == "length"
    assert status == 0


def test_drain_ends_at_its_timeout() -> None:
    """
    Requests beyond the shutdown timeout are aborted with an error; the status is 0.
    """
    argv = ("--port=0", "--shutdown-timeout=0.2", "--simulated-step-seconds=0.1")
    with serving(*argv, "--in-process", "--executor=simulated") as server:
        body = {**ENDLESS, "stream": True}
        connection, response = server.stream("/v1/completions", body)
        response.readline()
        status = server.end(signal.SIGINT)
        raw = response.read()
        connection.close()
        log = server.log.read_text()

    assert re.search("aborting requests .* open_requests=1", log)
    assert status == 0
    assert b'"code":"aborted"' in raw


@pytest.mark.slow
def test_second_signal_ends_at_once() -> None:
    """
    A second signal does not wait for running requests.
    """
    argv = ("--port=0", "--simulated-step-seconds=0.1", "--shutdown-timeout=600")
    with serving(*argv, "--in-process", "--executor=simulated") as server:
        connection, response = server.stream(
            "/v1/completions", {**ENDLESS, "stream": True}
        )
        response.readline()
        server.process.send_signal(signal.SIGTERM)
        _status_until(server, 503)
        status = server.end(signal.SIGTERM)
        connection.close()

    assert status == 128 + signal.SIGTERM


@pytest.mark.exhaustive
def test_signal_while_loading_ends_in_order() -> None:
    """
    While the model loads the port answers that it does, and SIGTERM ends it with 0.
    """
    with serving(
        "--port=0", "--in-process", is_awaited=False, is_forked=False
    ) as server:
        server.wait_until_listening()
        live, _ = server.get("/health/live")
        ready, reason = server.get("/health/ready")
        status = server.end()

    assert (live, ready) == (200, 503)
    assert "loading" in reason
    assert status == 0


@pytest.mark.slow
def test_engine_death_is_reported() -> None:
    """
    When the engine process dies, its open requests end with an error, readiness is
    gone, and the process still lives and ends in order.
    """
    with serving("--port=0", *SLOW_STEPS) as server:
        connection, response = server.stream(
            "/v1/completions", {**ENDLESS, "stream": True}
        )
        response.readline()
        os.kill(server.engine_pid, signal.SIGKILL)
        rest = response.read()
        connection.close()
        ready, reason = server.get("/health/ready")
        live, _ = server.get("/health/live")
        status = server.end()

    assert b'"error"' in rest
    assert (live, ready) == (200, 503)
    assert "the engine has failed" in reason
    assert status == 0


def _status_until(server: Server, status: int) -> int:
    """Asks for readiness until it has changed."""
    deadline = Deadline(START_SECONDS)
    while (found := server.get("/health/ready")[0]) != status:
        assert deadline.is_ahead
        time.sleep(0.02)
    return found
