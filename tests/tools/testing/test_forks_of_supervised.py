"""A forked process finds what `python -m` would have given it."""

import os
import resource
import signal
import socket
from pathlib import Path

import msgspec
import pytest

from hookline_processes import supervised
from hookline_processes.python import start_python
from hookline_processes.supervised import Supervised
from hookline_testing import forks_of_supervised
from hookline_testing.forked_servers import ForkServer
from hookline_testing.forks import ForkedProcess, Forks
from hookline_testing.forks_of_supervised import fork_supervised

pytestmark = pytest.mark.slow

NAME = "seen_by_itself"
MODULE = """
import os, resource, signal, sys
from pathlib import Path
import msgspec
from hookline_processes.owner import HELD, run_supervised

BLOCKED = HELD[0] in signal.pthread_sigmask(signal.SIG_BLOCK, ())

def main(owner, arguments):
    paths = [each for each in sys.path if each]
    owner.send_bytes(msgspec.json.encode({
        "arguments": arguments,
        "named": __name__,
        "blocked at first": BLOCKED,
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "command": Path("/proc/self/cmdline").read_text().rstrip(chr(0)).split(chr(0)),
        "comm": Path("/proc/self/comm").read_text(),
        "descriptors": sorted(os.listdir("/proc/self/fd")),
        "folder": os.getcwd(),
        "own group": os.getpgid(0) == os.getpid(),
        "limit": resource.getrlimit(resource.RLIMIT_CORE),
        "original": sys.orig_argv,
        "parent": os.getppid(),
        "passed": os.read(int(arguments[0]), 2).decode(),
        "paths": [each for each in paths if Path(each).is_dir()],
        "processors": sorted(os.sched_getaffinity(0)),
        "role": sys._xoptions["hookline_role"],
        "variables": {**os.environ},
    }))
    owner.receive_bytes()
    return 3

if __name__ == "__main__":
    sys.exit(run_supervised(main))
"""


@pytest.fixture(scope="module")
def forks() -> Forks:
    return ForkServer({**os.environ}).forks


@pytest.fixture(autouse=True)
def forked_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module can be imported, and may be forked."""
    (tmp_path / f"{NAME}.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(forks_of_supervised, "FORKED", {NAME})
    monkeypatch.setattr(supervised, "start_python", start_python)


def seen(*, is_apart: bool) -> tuple[object, type, int | None]:
    """What the module finds, what it runs in for its owner, and its exit code."""
    reading, writing = os.pipe()
    os.write(writing, b"ok")
    os.close(writing)
    process = Supervised(
        NAME,
        (reading, "an argument"),
        name="a fork of a test",
        role="tested",
        pass_fds=(reading,),
        is_apart=is_apart,
    )
    found = process.receive_bytes()
    assert found is not None
    kind = type(process._process)
    process.hang_up()
    process.close(60.0)
    os.close(reading)
    return msgspec.json.decode(found), kind, process.exit_code


def test_a_fork_finds_what_a_new_process_does(
    forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its arguments, descriptors, signals, limits, variables, and its place."""
    monkeypatch.chdir(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_CORE)
    found = []
    resource.setrlimit(resource.RLIMIT_CORE, (0, before[1]))
    try:
        for is_forked in (False, True):
            if is_forked:
                fork_supervised(lambda: forks)
            found += [seen(is_apart=is_apart) for is_apart in (False, True)]
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)

    assert [each[0] for each in found[2:]] == [each[0] for each in found[:2]]
    assert [each[2] for each in found] == [3] * 4
    assert {each[1] for each in found[2:]} == {ForkedProcess}
    assert ForkedProcess not in {each[1] for each in found[:2]}


def test_another_environment_needs_a_new_process(
    forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was imported may have read it; the module gets it."""
    monkeypatch.setenv("OF_A_TEST", "2")
    with socket.socket() as unused:
        other = Forks(unused, {**forks.variables, "OF_A_TEST": "1"})
        fork_supervised(lambda: other)
        found, kind, _ = seen(is_apart=False)

    assert isinstance(found, dict)
    assert found["variables"]["OF_A_TEST"] == "2"
    assert kind is not ForkedProcess


def test_a_fork_that_is_killed_is_reaped(forks: Forks) -> None:
    """Its signal is its exit code, whoever asks first."""
    fork_supervised(lambda: forks)
    reading, writing = os.pipe()
    os.write(writing, b"ok")
    process = Supervised(NAME, (reading,), name="a", role="b", pass_fds=(reading,))
    process.receive_bytes()
    process.kill()
    process.close(60.0)
    for each in (reading, writing):
        os.close(each)

    assert process.exit_code == -signal.SIGKILL
    assert not Path(f"/proc/{process.pid}").exists()
