"""Keys are in no list of processes, no environment of a child, and no log line."""

from pathlib import Path

import pytest

from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

KEY = "sk-that-nobody-else-may-see"
TOKEN = "tk-that-nobody-else-may-see"  # noqa: S105 - of this test only
BODY = {"model": "demo", "prompt": "Hello", "max_tokens": 1}


def visible(server: Server) -> str:
    """What other users see of the server's processes, and the engine's environment."""
    pids = (server.process.pid, server.engine_pid)
    parts = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]
    parts.append(Path(f"/proc/{server.engine_pid}/environ").read_bytes())
    return b"\n".join(parts).decode("utf-8", "replace")


def check(server: Server) -> None:
    shown = visible(server)
    for secret in (KEY, TOKEN):
        assert secret not in shown
    for key in (KEY, TOKEN, KEY + "x"):
        headers = {"Authorization": f"Bearer {key}"}
        status, _ = server.post("/v1/completions", BODY, headers)
        assert status == {KEY: 200, TOKEN: 403}.get(key, 401)
        status, page = server.get("/metrics", headers)
        assert status == {KEY: 403, TOKEN: 200}.get(key, 401)
        assert KEY not in page
        assert TOKEN not in page
    log = server.log.read_text()
    assert KEY not in log
    assert TOKEN not in log


def test_keys_on_the_command_line_are_hidden() -> None:
    """
    The server works with the keys, but `ps` does not show them.
    """
    with serving(
        "--port=0",
        "--executor=simulated",
        "--stat-logger=prometheus",
        "--api-key",
        KEY,
        f"--metrics-token={TOKEN}",
        is_forked=False,
    ) as server:
        check(server)
        shown = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()

    assert b"--api-key\0(hidden)\0--metrics-token=(hidden)" in shown


def test_keys_of_the_environment_stay_in_the_server() -> None:
    """
    Keys can come from variables, which the engine does not inherit.
    """
    variables = {"HOOKLINE_API_KEY": KEY, "HOOKLINE_METRICS_TOKEN": TOKEN}
    argv = ("--port=0", "--executor=simulated", "--stat-logger=prometheus")
    with serving(*argv, environment=variables) as server:
        check(server)
