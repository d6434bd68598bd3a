"""Cleaners of temporary files remove the sockets of a server that goes on serving."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline_testing.essential import essential
from hookline_testing.server_process import (
    Server,
    api_servers_of,
    descendants_of,
    engines_of,
    serving,
)
from hookline_testing.waiting import wait_until

pytestmark = pytest.mark.hostile

OPTIONS = (
    *("--port", "0", "--executor", "simulated", "--num-kv-blocks", "256"),
    *("--engine-restart", "3", "--observer-process"),
)
BODY = {"model": "demo", "prompt": [1, 2, 3], "max_tokens": 4, "seed": 7}


@pytest.fixture(params=essential([1, 2], 2))
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server of one process, or with two API servers, and a folder of its own."""
    with serving(
        *OPTIONS,
        f"--api-server-count={request.param}",
        environment={"TMPDIR": str(tmp_path)},
    ) as running:
        yield running


def clean(folder: Path) -> None:
    """Removes what a server has in the folder for temporary files."""
    found = list(folder.glob("hookline-*"))
    assert found
    for each in found:
        shutil.rmtree(each)


def works(server: Server) -> bool:
    """Whether requests and pages are served."""
    try:
        if server.get("/health/ready")[0] != 200:
            return False
        status, answer = server.post("/v1/completions", BODY)
    except OSError:  # of an API server that was just killed
        return False
    return status == 200 and len(answer["choices"]) == 1


def observer_of(server: Server) -> int:
    for pid in descendants_of(server.process.pid):
        if b"hookline_observer.process" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise AssertionError("there is no observer process")


def _kill_engine(server: Server) -> None:
    """Kills the engine, and waits until another one serves in its place."""
    killed = server.engine_pid
    os.kill(killed, signal.SIGKILL)

    def is_replaced() -> bool:
        engine = engines_of(server.process.pid).get(0, killed)
        return engine != killed and works(server)

    wait_until(is_replaced, "the engine is not replaced")


def test_processes_are_replaced_after_their_folder_was_removed(
    server: Server, tmp_path: Path
) -> None:
    """
    Each new process finds the others, and they find it: the engine twice, the observer
    process, and an API server.
    """
    for _ in range(2):
        clean(tmp_path)
        _kill_engine(server)
    clean(tmp_path)
    os.kill(observer_of(server), signal.SIGKILL)
    server.log_with("the observer process has been replaced")
    wait_until(lambda: server.get("/metrics")[0] == 200, "there are no pages")
    clean(tmp_path)
    for pid in api_servers_of(server.process.pid):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: works(server), "the server does not work")
    assert server.get("/metrics")[0] == 200
    assert all(each.stat().st_mode & 0o77 == 0 for each in tmp_path.glob("hookline-*"))
    assert server.end() == 0
    left = [each.name for each in tmp_path.glob("hookline-*")]
    assert left in ([], [f"hookline-recordings-{os.geteuid()}"])
