"""Flight recorders of servers that are killed, and what signals save of them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline_recording import read_recording
from hookline_testing.own_time import Deadline
from hookline_testing.server_process import serving

pytestmark = pytest.mark.hostile

OPTIONS = (
    *("--port", "0", "--executor", "simulated", "--num-kv-blocks", "256"),
    *("--simulated-step-seconds", "0.02", "--flight-recorder-bytes", "1MiB"),
)
MARKER = "xyzzy-marker"
BODY = {"model": "demo", "prompt": MARKER, "max_tokens": 4, "ignore_eos": True}


def wait_until(is_true: Callable[[], object], what: str) -> None:
    deadline = Deadline(60.0)
    while not is_true():
        assert deadline.is_ahead, what
        time.sleep(0.05)


def saved(folder: Path, reason: str) -> list[Path]:
    return list(folder.rglob(f"*-{reason}.rec"))


@pytest.mark.parametrize("options", [(), ("--observer-process",)])
def test_what_a_killed_server_did_is_there(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """SIGUSR2 saves while it serves; after SIGKILL `record save` finds the rest.

    Another server in the same folder serves all the while, and takes its own away.
    """
    environment = {"TMPDIR": str(tmp_path)}
    with serving(*OPTIONS, environment=environment) as other:
        with serving(*OPTIONS, *options, environment=environment) as server:
            assert server.post("/v1/completions", BODY)[0] == 200
            os.kill(server.process.pid, signal.SIGUSR2)
            wait_until(lambda: saved(tmp_path, "signal"), "nothing was saved")
            assert server.post("/v1/completions", BODY)[0] == 200
            engine = server.engine_pid
            os.kill(engine, signal.SIGKILL)
            server.process.kill()
            server.process.wait()
        command = [sys.executable, "-m", "hookline_server", "record", "save"]
        told = subprocess.run(
            [*command, str(engine), "--output", str(tmp_path / "last")],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert other.post("/v1/completions", BODY)[0] == 200
        assert other.end() == 0

    assert "8 steps, 0 damaged" in told.stdout, told.stderr
    last = read_recording(tmp_path / "last")
    assert [each.served is not None for each in last.requests.values()][:1] == [True]
    assert last.steps[-1].published is not None
    assert [path.stem.split("-")[2] for path in tmp_path.rglob("*.ring")] == [
        str(engine)
    ]
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in left if MARKER.encode() in path.read_bytes()]
