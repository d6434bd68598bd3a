"""An engine process that hangs or is stopped, but does not die."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hookline_testing.own_time import Deadline
from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

OPTIONS = (
    *("--port", "0", "--executor", "simulated", "--num-kv-blocks", "256"),
    *("--simulated-step-seconds", "0.02", "--step-timeout", "2"),
    *("--heartbeat-seconds", "0.2"),
)
DEADLINE = 30.0
PATHS = ("/health/ready", "/health", "/health/deep")
LONG = {"model": "demo", "prompt": [1, 2, 3], "max_tokens": 300}
SHORT = {"model": "demo", "prompt": [4, 5, 6], "max_tokens": 4}

HANG_IN_NATIVE_CODE = """
import ctypes
from hookline_simulated.executor import SimulatedExecutor

execute = SimulatedExecutor._execute

def hang_in_time(self, plan):
    if plan.step > 5:
        ctypes.PyDLL(None).sleep(100)  # keeps the interpreter's lock
    return execute(self, plan)

SimulatedExecutor._execute = hang_in_time
"""


def wait_until(is_true: Callable[[], bool], what: str) -> None:
    deadline = Deadline(DEADLINE)
    while not is_true():
        assert deadline.is_ahead, what
        time.sleep(0.1)


def is_ready(server: Server) -> bool:
    return server.get("/health/ready", timeout_seconds=30)[0] == 200


def ask(
    pool: ThreadPoolExecutor, server: Server, body: object
) -> Future[tuple[int, Any]]:
    return pool.submit(server.post, "/v1/completions", body)


def ages_of_requests(server: Server) -> list[float]:
    names = ("running", "waiting")
    return [server.metric(f"hookline_oldest_{name}_age_seconds") for name in names]


def stop_while_busy(server: Server) -> None:
    """Stops the engine process once a request runs and a heartbeat has said so."""
    server.wait_for("hookline_requests_running", 1)
    time.sleep(0.5)
    os.kill(server.engine_pid, signal.SIGSTOP)


def test_a_stopped_engine_is_told_and_recovers() -> None:
    """Health, metrics and the log say so; requests end; ages grow; it may come back."""
    with serving(*OPTIONS) as server, ThreadPoolExecutor() as pool:
        assert server.post("/v1/completions", SHORT)[0] == 200
        running = ask(pool, server, LONG)
        stop_while_busy(server)
        waiting = ask(pool, server, SHORT)
        wait_until(lambda: not is_ready(server), "/health/ready stayed 200")
        ended = [each.result(DEADLINE) for each in (running, waiting)]
        server.wait_for("hookline_engine_stalled", 1)
        health, alive = server.get("/health")[0], server.get("/health/live")[0]
        server.wait_for("hookline_engine_up", 0)
        server.wait_for("hookline_engine_stalls_total", 1)
        ages = [ages_of_requests(server)]
        time.sleep(0.5)
        ages.append(ages_of_requests(server))
        refused, error = server.post("/v1/completions", SHORT)

        os.kill(server.engine_pid, signal.SIGCONT)
        wait_until(lambda: is_ready(server), "/health/ready stayed 503")
        answered, _ = server.post("/v1/completions", SHORT)
        server.wait_for("hookline_requests_finished_total", 2, reason="error")
        kinds = ("requests", "tokens", "blocks")
        residue = [
            server.metric("hookline_conservation_residue", kind=kind) for kind in kinds
        ]
        log = server.log_with("engine 0 works again")

    assert [status for status, _ in ended] == [503, 503]
    assert all(body["error"]["code"] == "engine_stalled" for _, body in ended)
    assert (health, alive) == (503, 200)
    assert all(later > earlier > 0 for earlier, later in zip(*ages, strict=True))
    assert (refused, error["error"]["code"]) == (503, "engine_stalled")
    assert answered == 200
    assert residue == [0, 0, 0]
    assert "engine 0 is stalled" in log
    assert "State: T (stopped)" in log
    assert "last commands: " in log


def test_requests_may_wait_for_a_stopped_engine() -> None:
    """With `--on-engine-stall wait` none is lost, however long it lasts."""
    with (
        serving(*OPTIONS, "--on-engine-stall", "wait") as server,
        ThreadPoolExecutor() as pool,
    ):
        running = ask(pool, server, LONG)
        stop_while_busy(server)
        waiting = ask(pool, server, SHORT)
        wait_until(lambda: not is_ready(server), "/health/ready stayed 200")
        time.sleep(1.0)
        are_open = not (running.done() or waiting.done())
        os.kill(server.engine_pid, signal.SIGCONT)
        ended = [each.result(DEADLINE)[0] for each in (running, waiting)]

    assert are_open
    assert ended == [200, 200]


def test_a_hung_step_is_dumped(tmp_path: Path) -> None:
    """Native code that keeps the interpreter's lock cannot hide its stack."""
    (tmp_path / "sitecustomize.py").write_text(HANG_IN_NATIVE_CODE)
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    with serving(*OPTIONS, environment={"PYTHONPATH": paths}) as server:
        status, answer = server.post("/v1/completions", LONG)
        probe, _ = server.get("/health/deep")
        server.log_with("threads of engine 0", "hang_in_time")

    assert status == 503
    assert answer["error"]["code"] == "engine_stalled"
    assert probe == 503


def test_a_stopped_server_does_not_blame_its_engine() -> None:
    """Time in which the server itself was stopped is no silence of the engine."""
    with serving(*OPTIONS) as server, ThreadPoolExecutor() as pool:
        running = ask(pool, server, LONG)
        server.wait_for("hookline_requests_running", 1)
        os.kill(server.process.pid, signal.SIGSTOP)
        time.sleep(4.0)  # twice the limit
        os.kill(server.process.pid, signal.SIGCONT)
        status, _ = running.result(DEADLINE)
        health, reason = server.get("/health")
        stalls = server.metric("hookline_engine_stalls_total")

    assert status == 200
    assert health == 200, reason
    assert stalls == 0


def test_a_saturated_engine_is_not_declared_hung() -> None:
    """A queue far longer than the limit is no stall while steps are run."""
    with (
        serving(
            *OPTIONS,
            *("--max-num-seqs", "1", "--deep-health-timeout", "0.3"),
        ) as server,
        ThreadPoolExecutor(8) as pool,
    ):
        requests = [ask(pool, server, LONG | {"max_tokens": 30}) for _ in range(8)]
        server.wait_for("hookline_requests_running", 1)
        statuses = []
        while not all(request.done() for request in requests):
            statuses += [server.get(path)[0] for path in PATHS]
            time.sleep(0.1)
        ended = [request.result()[0] for request in requests]
        stalls = server.metric("hookline_engine_stalls_total")

    assert len(statuses) > 10
    assert set(statuses) == {200}
    assert ended == [200] * 8
    assert stalls == 0
