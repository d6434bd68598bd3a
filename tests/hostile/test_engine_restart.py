"""The engine process is killed, fails or hangs, and may be replaced."""

import json
import os
import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hookline_testing.own_time import Deadline
from hookline_testing.poison import POISON, poisonable
from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

OPTIONS = (
    *("--port", "0", "--executor", "simulated", "--num-kv-blocks", "256"),
    *("--simulated-step-seconds", "0.02", "--max-num-seqs", "4"),
    *("--engine-restart", "3", "--heartbeat-seconds", "0.2"),
)
DEADLINE = 60.0
BODY = {"model": "demo", "prompt": [1, 2, 3], "max_tokens": 60, "seed": 7}


def stream(server: Server) -> tuple[str, str]:
    """The text that a client of a stream gets, and its error, if any."""
    connection, response = server.stream("/v1/completions", BODY | {"stream": True})
    text, error = "", ""
    for line in response.read().decode().splitlines():
        if not line.startswith("data: {"):
            continue
        event = json.loads(line.removeprefix("data: "))
        if "error" in event:
            error = event["error"]["message"]
        else:
            text += event["choices"][0]["text"] if event["choices"] else ""
    connection.close()
    return text, error


def ask(pool: ThreadPoolExecutor, server: Server) -> Future[tuple[int, Any]]:
    return pool.submit(server.post, "/v1/completions", BODY)


def wait_until_ready(server: Server) -> None:
    deadline = Deadline(DEADLINE)
    while server.get("/health/ready")[0] != 200:
        assert deadline.is_ahead, "the engine was not replaced"
        time.sleep(0.1)


def books(server: Server) -> dict[str, float]:
    """Received, finished by reason, and the residue of each kind."""
    found = {"received": server.metric("hookline_requests_received_total")}
    for reason in ("length", "error", "abort"):
        name = "hookline_requests_finished_total"
        found[reason] = server.metric(name, reason=reason)
    for kind in ("requests", "tokens", "blocks"):
        found[kind] = server.metric("hookline_conservation_residue", kind=kind)
    return found


def test_a_killed_engine_is_replaced() -> None:
    """What no client has seen begins again; a stream that had begun gets an error."""
    with serving(*OPTIONS) as server, ThreadPoolExecutor(16) as pool:
        expected = server.post("/v1/completions", BODY)[1]["choices"]
        first = server.engine_pid
        streams = [pool.submit(stream, server) for _ in range(2)]
        server.wait_for("hookline_requests_running", 2)
        time.sleep(0.5)
        others = [ask(pool, server) for _ in range(6)]  # two run, four wait
        server.wait_for("hookline_requests_waiting", 4, reason="capacity")

        os.kill(first, signal.SIGKILL)
        broken = [each.result(DEADLINE) for each in streams]
        unready, _ = server.get("/health/ready")
        refused, error = server.post("/v1/completions", BODY)
        wait_until_ready(server)
        second = server.engine_pid
        answers = [each.result(DEADLINE) for each in others]
        server.wait_for("hookline_requests_finished_total", 7, reason="length")
        server.wait_for("hookline_requests_running", 0)
        counted = books(server)
        server.wait_for("hookline_engine_restarts_total", 1, reason="exited")
        server.wait_for("hookline_engine_up", 1)

    assert all(text for text, _ in broken)
    assert all("restarted: its process was killed by SIGKILL" in e for _, e in broken)
    assert unready == 503
    assert (refused, error["error"]["code"]) == (503, "engine_restarting")
    assert second != first
    assert [status for status, _ in answers] == [200] * 6
    assert all(body["choices"] == expected for _, body in answers)
    assert counted == {
        "received": 9,
        "length": 7,
        "error": 2,
        "abort": 0,
        "requests": 0,
        "tokens": 0,
        "blocks": 0,
    }


def test_a_hung_engine_is_replaced() -> None:
    """With `--on-engine-stall restart` its process is killed after `--step-timeout`."""
    stall = ("--step-timeout", "2", "--on-engine-stall", "restart")
    with serving(*OPTIONS, *stall) as server, ThreadPoolExecutor() as pool:
        expected = server.post("/v1/completions", BODY)[1]["choices"]
        first = server.engine_pid
        os.kill(first, signal.SIGSTOP)
        waiting = ask(pool, server)
        status, answer = waiting.result(DEADLINE)
        second = server.engine_pid
        server.wait_for("hookline_engine_restarts_total", 1, reason="stalled")

    assert status == 200
    assert answer["choices"] == expected
    assert second != first


def test_a_request_that_kills_engines_is_not_tried_for_ever(tmp_path: Path) -> None:
    """It begins again once; then it ends with an error, and the engine lives."""
    with serving(*OPTIONS, environment=poisonable(tmp_path)) as server:
        poisoned, error = server.post("/v1/completions", BODY | {"prompt": [POISON]})
        wait_until_ready(server)
        status, _ = server.post("/v1/completions", BODY)
        server.wait_for("hookline_engine_restarts_total", 2, reason="failed")
        server.wait_for("hookline_requests_received_total", 2)
        server.wait_for("hookline_requests_finished_total", 1, reason="error")

    assert poisoned == 503
    assert "this prompt cannot be computed" in error["error"]["message"]
    assert status == 200


def test_restarts_are_limited() -> None:
    """After the last one a dead engine stays dead, and says why."""
    with serving(*OPTIONS, "--engine-restart", "1") as server:
        os.kill(server.engine_pid, signal.SIGKILL)
        while server.get("/health/ready")[0] == 200:
            time.sleep(0.05)
        wait_until_ready(server)
        os.kill(server.engine_pid, signal.SIGKILL)
        while server.get("/health/ready")[0] == 200:
            time.sleep(0.05)
        _, reason = server.get("/health/ready")
        server.wait_for("hookline_engine_up", 0)
        server.log_with("the engine has failed")

    assert "the engine has failed: its process was killed by SIGKILL" in reason
