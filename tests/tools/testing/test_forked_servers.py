"""A forked server is what a new process would be, wherever a test can see it."""

import os
import re
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from hookline_testing.forked_servers import ForkedProcess
from hookline_testing.server_process import Server, children_of, serving
from hookline_testing.waiting import wait_until

OPTIONS = ("--port", "0", "--executor", "simulated", "--num-kv-blocks", "256")
SIGNALS = ("SigBlk", "SigIgn", "SigCgt")
BODY = {"model": "demo", "prompt": [5, 6, 7], "max_tokens": 4, "temperature": 0}


def links_of(pid: int) -> set[str]:
    """What the descriptors of a process are."""
    found = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(str(each.readlink()))
    return found


def seen(server: Server) -> dict[str, object]:
    """What others see of a server that has answered a request."""
    status, answer = server.post("/v1/completions", BODY)
    proc = Path(f"/proc/{server.process.pid}")
    fields = dict(
        line.split(":\t", 1) for line in (proc / "status").read_text().splitlines()
    )
    children = [Path(f"/proc/{each}") for each in children_of(server.process.pid)]
    commands = [(each / "cmdline").read_text().split("\0")[:3] for each in children]
    variables = Path(f"/proc/{server.engine_pid}/environ").read_bytes().split(b"\0")
    return {
        "answer": (status, answer["choices"]),
        "banner": re.sub(r"[0-9.]+", "", server.banner),
        "parent": fields["PPid"],
        "group": os.getpgid(server.process.pid),
        "session": os.getsid(server.process.pid),
        "signals": [fields[name] for name in SIGNALS],
        "folder": (proc / "cwd").readlink(),
        "limits": (proc / "limits").read_text(),
        "niceness": os.getpriority(os.PRIO_PROCESS, server.process.pid),
        "descriptors": sorted(
            each.partition(":")[0].replace(str(Path(each).parent), "")
            for each in links_of(server.process.pid)
            if not each.startswith(("socket:", f"{tempfile.gettempdir()}/#"))
        ),
        "children": sorted(commands),
        "engine's variables": {
            each for each in variables if not each.startswith(b"PYTEST_CURRENT_TEST")
        },
    }


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_fork_looks_and_ends_like_a_new_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    """The same answers, outputs, descriptors, signals, children and exit code."""
    monkeypatch.chdir(tmp_path)
    found, codes, last = [], [], []
    for is_forked in (False, True):
        with serving(*OPTIONS, is_forked=is_forked) as server:
            assert isinstance(server.process, ForkedProcess) is is_forked
            found.append(seen(server))
            codes.append(server.end(number))
            last.append(server.log.read_text()[-200:].split(" ")[-1])

    new, fork = found
    assert fork == new
    assert codes == [code, code]
    assert last[0] == last[1]


def test_other_variables_need_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules may have read them when they were imported."""
    with serving(*OPTIONS):
        monkeypatch.setenv("HOOKLINE_OF_A_TEST", "1")
        with serving(*OPTIONS) as server:
            assert isinstance(server.process, subprocess.Popen)
            environment = Path(f"/proc/{server.process.pid}/environ").read_bytes()

    assert b"HOOKLINE_OF_A_TEST=1" in environment


def test_a_fork_holds_nothing_of_others() -> None:
    """Neither the order for it, nor what the process that forked it holds."""
    with serving(*OPTIONS) as server:
        [forks] = [
            pid
            for pid in children_of(os.getpid()) - {server.process.pid}
            if "fork_server" in Path(f"/proc/{pid}/cmdline").read_text()
        ]
        common = links_of(forks) & links_of(server.process.pid)

    assert common <= {"/dev/null", *links_of(os.getpid())}
    assert not [each for each in common if each.startswith(("socket:", "pipe:"))]


def test_an_error_of_a_fork_is_in_its_log() -> None:
    """As of any other server; its start fails at once."""
    with serving("--port", "nowhere", is_awaited=False) as server:
        assert isinstance(server.process, ForkedProcess)
        status = server.process.wait(60)
        complaint = server.log.read_text()

    assert status == 2
    assert complaint.startswith("hookline: error: ")


def test_forks_adopt_nothing_afterwards() -> None:
    """Orphans of later processes go to the init process, as ever."""
    with serving(*OPTIONS) as server:
        engine = server.engine_pid
        server.process.kill()
        server.process.wait(60)
        wait_until(
            lambda: not Path(f"/proc/{engine}").exists(), "the engine's zombie is left"
        )
