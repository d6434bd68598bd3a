"""A forked server is what a new process would be, wherever a test can see it."""

import os
import re
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from hookline_testing.forks import ForkedProcess
from hookline_testing.server_process import Server, children_of, serving
from hookline_testing.waiting import wait_until

pytestmark = pytest.mark.slow

OPTIONS = ("--port", "0", "--executor", "simulated", "--num-kv-blocks", "256")
SIGNALS = ("SigBlk", "SigIgn", "SigCgt")
LOGGER = """
from hookline import hookimpl

class Logger:
    def __init__(self, context): ...

    @hookimpl
    def engine_started(self, started): ...
"""
BODY = {"model": "demo", "prompt": [5, 6, 7], "max_tokens": 4, "temperature": 0}


def links_of(pid: int) -> set[str]:
    """What the descriptors of a process are."""
    found = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(str(each.readlink()))
    return found


def named(link: str) -> str:
    """Names what a descriptor is, without its folder and numbers."""
    name = link.partition(":")[0].replace(str(Path(link).parent), "")
    return re.sub(r"\d+", "0", name)


def seen(server: Server) -> dict[str, object]:
    """What others see of a server that has answered a request."""
    status, answer = server.post("/v1/completions", BODY)
    proc = Path(f"/proc/{server.process.pid}")
    fields = dict(
        line.split(":\t", 1) for line in (proc / "status").read_text().splitlines()
    )
    children = [Path(f"/proc/{each}") for each in children_of(server.process.pid)]
    commands = [(each / "cmdline").read_text().split("\0")[:3] for each in children]
    return {
        "answer": (status, answer["choices"]),
        "banner": without_numbers(server.banner),
        "parent": fields["PPid"],
        "group": os.getpgid(server.process.pid),
        "session": os.getsid(server.process.pid),
        "signals": [fields[name] for name in SIGNALS],
        "folder": (proc / "cwd").readlink(),
        "limits": (proc / "limits").read_text(),
        "niceness": os.getpriority(os.PRIO_PROCESS, server.process.pid),
        "descriptors": sorted(
            named(each)
            for each in links_of(server.process.pid)
            if not each.startswith(("socket:", f"{tempfile.gettempdir()}/#"))
        ),
        "children": sorted(commands),
    }


@pytest.mark.exhaustive
def test_a_fork_looks_and_ends_like_a_new_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The same answers, outputs, descriptors, signals, children and exit code; a test's
    own variables, and modules, reach both.
    """
    monkeypatch.chdir(tmp_path)
    site = tmp_path / "site"
    site.mkdir()
    variables = {"PYTHONPATH": str(site), "OF_A_TEST": "1"}
    options = (*OPTIONS, "--stat-logger", "of_a_test:Logger")
    (site / "of_a_test.py").write_text(LOGGER)
    found, codes, last = [], [], []
    for is_forked in (False, True):
        with serving(*options, is_forked=is_forked, environment=variables) as server:
            assert isinstance(server.process, ForkedProcess) is is_forked
            found.append(seen(server))
            [forks] = forks_beside(server) or [os.getpid()]
            shared = links_of(forks) & links_of(server.process.pid)
            codes.append(server.end())
            last.append(without_numbers(server.log.read_text().splitlines()[-1]))

    new, fork = found
    assert fork == new
    assert codes == [0, 0]
    assert last[0] == last[1]
    assert not [each for each in shared if each.startswith(("socket:", "pipe:"))]


def without_numbers(text: str) -> str:
    """Ports and times differ."""
    return re.sub(r"[0-9.]+", "", text)


def forks_beside(server: Server) -> list[int]:
    """The process that forks servers, and holds what none of them may."""
    return [
        pid
        for pid in children_of(os.getpid()) - {server.process.pid}
        if "fork_server" in Path(f"/proc/{pid}/cmdline").read_text()
    ]


@pytest.mark.exhaustive
def test_other_variables_need_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules may have read them when they were imported."""
    monkeypatch.setenv("HOOKLINE_OF_A_TEST", "1")

    with serving(*OPTIONS) as server:
        environment = Path(f"/proc/{server.process.pid}/environ").read_bytes()

    assert isinstance(server.process, subprocess.Popen)
    assert b"HOOKLINE_OF_A_TEST=1" in environment


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
        code = server.process.wait(60)
        wait_until(
            lambda: not Path(f"/proc/{engine}").exists(), "the engine's zombie is left"
        )

    assert code == -signal.SIGKILL
