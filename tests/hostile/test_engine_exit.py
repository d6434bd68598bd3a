"""The engine ends by an exception: one traceback, one reason, no abort at its exit."""

import os
import time
from pathlib import Path

import pytest

from hookline_testing.own_time import Deadline
from hookline_testing.server_process import serving

pytestmark = pytest.mark.hostile

BREAK_STEPS = """
from hookline_simulated.executor import SimulatedExecutor

execute = SimulatedExecutor._execute

def break_in_time(self, plan):
    if plan.step > 3:
        raise RuntimeError("the device fell off")
    return execute(self, plan)

SimulatedExecutor._execute = break_in_time
"""
COMPLETION = {"model": "demo", "prompt": [1, 2, 3], "max_tokens": 50}
EXIT_SECONDS = 30


def test_an_engine_that_fails_exits_quietly(tmp_path: Path) -> None:
    """Its client gets the error; the log has the traceback and no fatal error."""
    (tmp_path / "sitecustomize.py").write_text(BREAK_STEPS)
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    with serving(
        *("--port", "0", "--executor", "simulated", "--num-kv-blocks", "256"),
        environment={"PYTHONPATH": paths},
    ) as server:
        engine = server.engine_pid
        status, answer = server.post("/v1/completions", COMPLETION)
        deadline = Deadline(EXIT_SECONDS)
        while Path(f"/proc/{engine}/exe").exists():
            assert deadline.is_ahead, "the engine did not exit"
            time.sleep(0.05)
        health, _ = server.get("/health")
        log = server.log_with("engine 0 has ended")  # its own lines are before this one

    assert status == 503
    assert "RuntimeError: the device fell off" in answer["error"]["message"]
    assert health == 503
    assert log.count("Traceback") == 1
    assert "Fatal Python error" not in log
