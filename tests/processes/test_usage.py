"""What processes take is known by their roles, of descendants, too."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline_processes.supervised import Supervised
from hookline_processes.usage import ProcessTree, RoleUsage
from hookline_testing.waiting import wait_until

CHILD = """
import sys

from hookline_processes.owner import run_supervised
from hookline_processes.supervised import Supervised


def main(owner, arguments):
    inner = [Supervised("child", name=name, role="text") for name in arguments]
    print(*range(300_000), file=open("/dev/null", "w"))
    owner.send_bytes(b"ready")
    owner.wait_until_gone()
    for each in inner:
        each.hang_up()
        each.close(60.0)
    return 0


sys.exit(run_supervised(main))
"""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Supervised]:
    """Starts a process that starts others."""
    (tmp_path / "child.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def started(name: str, *inner: str) -> Supervised:
        process = Supervised("child", inner, name=name)
        assert process.receive_bytes(60.0) == b"ready"
        return process

    return started


def by_role(tree: ProcessTree) -> dict[tuple[str, str], RoleUsage]:
    return {(each.role, each.engine): each for each in tree.read()}


def test_usage_is_by_role(start: Callable[..., Supervised]) -> None:
    """
    Of this process, of an engine with two text processes, and of an API server; what
    has ended leaves its processor time, and another one in its place adds to it.
    """
    tree = ProcessTree(os.getpid())
    engine = start("engine 7", "one", "two")
    wait_until(
        lambda: by_role(tree).get(("text", "7"), RoleUsage(role="")).processes == 2,
        "they have no roles",
    )

    alone = by_role(tree)
    server = start("api 1")
    with_servers = by_role(tree)

    assert {key for key in alone if key[0] != "other"} >= {
        ("api-0", ""),
        ("engine-7", "7"),
        ("text", "7"),
    }
    assert {("parent", ""), ("api-1", "")} <= with_servers.keys()
    assert ("api-0", "") not in with_servers
    for each in (alone["engine-7", "7"], alone["text", "7"]):
        assert each.resident_bytes > 1 << 20
        assert each.open_fds >= 3 * each.processes
        assert each.threads >= each.processes
        assert each.cpu_seconds > 0
        assert abs(time.time() - each.started_at) < 600
    assert Path(f"/proc/{engine.pid}/comm").read_text() == "hl:engine-7\n"
    used = by_role(tree)["engine-7", "7"].cpu_seconds
    for process in (engine, server):
        process.hang_up()
        process.close(60.0)

    ended = by_role(tree)["engine-7", "7"]
    assert ended.cpu_seconds >= used
    assert ended == RoleUsage(
        role="engine-7", engine="7", cpu_seconds=ended.cpu_seconds
    )
    again = start("engine 7")
    assert by_role(tree)["engine-7", "7"].cpu_seconds > ended.cpu_seconds
    again.hang_up()
    again.close(60.0)
