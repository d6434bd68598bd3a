"""Sleep and wake-up of `hookline serve`, with the demo model."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hookline_server.settings import ServerSettings
from hookline_testing.own_time import Deadline
from hookline_testing.scripted_server import FakeEngine, client_of
from hookline_testing.server_process import Server, serving

MIB = 1024 * 1024
SAME_KERNELS = "--no-serve-while-compiling"
"""Answers are compared, so the same kernels compute all of them."""
BODY = {"model": "demo", "prompt": "def main(", "max_tokens": 24, "temperature": 0}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(
        "--port=0", "--enable-sleep-mode", "--kv-cache-memory=256MiB", SAME_KERNELS
    ) as running:
        yield running


def engine_bytes(server: Server) -> int:
    """Resident memory of the engine process."""
    lines = Path(f"/proc/{server.engine_pid}/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


def settled_bytes(server: Server) -> int:
    """The same, once the KV cache's pages are mapped in the background."""
    deadline = Deadline(30)
    looks = [0, engine_bytes(server)]
    while (
        looks[-1] > min(looks[-4:]) + MIB
    ):  # a look may come while it has no processor
        assert deadline.is_ahead
        time.sleep(0.5)
        looks.append(engine_bytes(server))
    return looks[-1]


def text_of(answer: Any) -> str:
    text: str = answer["choices"][0]["text"]
    return text


def wait_for_state(server: Server, state: str) -> None:
    """Waits for the metric, which follows answers within a logger's lane."""
    for each in ("awake", "weights_offloaded", "discard_all"):
        expected = 1 if each == state else 0
        server.wait_for("vllm:engine_sleep_state", expected, sleep_state=each)


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2])
def test_an_engine_sleeps_and_serves_the_same_afterwards(
    server: Server, level: int
) -> None:
    """
    Memory falls, requests wait, and the answers after the wake-up are as before.
    """
    _, before = server.post("/v1/completions", BODY)
    awake_bytes = settled_bytes(server)

    slept = server.post(f"/sleep?level={level}", {})
    asleep_bytes = engine_bytes(server)
    _, is_sleeping = server.get("/is_sleeping")
    wait_for_state(server, "weights_offloaded" if level == 1 else "discard_all")
    answers: list[Any] = []
    waiting = threading.Thread(
        target=lambda: answers.append(server.post("/v1/completions", BODY))
    )
    waiting.start()
    server.wait_for("hookline_requests_waiting", 1, reason="capacity")
    has_answered = bool(answers)
    woken = server.post("/wake_up", {})
    waiting.join(60)
    _, after = server.post("/v1/completions", BODY)

    assert slept == (200, {"is_sleeping": True, "level": level})
    assert is_sleeping == f'{{"is_sleeping":true,"level":{level}}}'
    assert awake_bytes - asleep_bytes > 150 * MIB
    assert not has_answered
    assert woken == (200, {"is_sleeping": False, "level": 0})
    wait_for_state(server, "awake")
    [(status, answer)] = answers
    assert status == 200
    assert text_of(answer) == text_of(after) == text_of(before)


async def test_wrong_parameters_are_named() -> None:
    """
    A level or mode that does not exist is a 400, and the engine is not told to sleep.
    """
    engine = FakeEngine()
    async with client_of(engine, ServerSettings(enable_sleep_mode=True)) as client:
        responses = [
            await client.post("/sleep?level=3"),
            await client.post("/sleep?mode=never"),
        ]
        level, mode = [(await each.json())["error"] for each in responses]

    assert [each.status for each in responses] == [400, 400]
    assert level["message"] == "level must be one of 1, 2, not '3'"
    assert mode["param"] == "mode"
    assert not engine.commands


@pytest.mark.exhaustive
def test_requests_may_be_refused_during_sleep() -> None:
    """
    With `--sleep-policy refuse` they get a 503 until the wake-up; running ones go on.
    """
    with serving(
        "--port=0", "--enable-sleep-mode", "--sleep-policy=refuse", SAME_KERNELS
    ) as refusing:
        _, before = refusing.post("/v1/completions", BODY)
        connection, response = refusing.stream(
            "/v1/completions",
            {**BODY, "max_tokens": 400, "ignore_eos": True, "stream": True},
        )
        assert response.readline().startswith(b"data: ")
        refusing.post("/sleep?mode=keep", {})
        status, answer = refusing.post("/v1/completions", BODY)
        refusing.post("/wake_up", {})
        rest = response.read()
        connection.close()
        _, after = refusing.post("/v1/completions", BODY)

    assert (status, answer["error"]["code"]) == (503, "sleeping")
    assert rest.endswith(b"data: [DONE]\n\n")
    assert text_of(after) == text_of(before)
