"""The first process of a container: it ends on signals, and leaves no zombies."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hookline_testing.waiting import wait_until

UNSHARE = (
    *("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"),
    "--mount-proc",
)
PROGRAM = """
import os, subprocess, sys, time
from hookline_processes.first_process import leave_first_process

leave_first_process()
assert os.getpid() != 1 and os.getppid() == 1
"""
SLEEPING = PROGRAM + "print('started', flush=True); time.sleep(1000)"
ORPHANS = (
    PROGRAM
    + """
for _ in range(20):  # each leaves a child behind that ends later
    code = "import os, sys; os.fork() and sys.exit(3)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 3

def zombies():
    return [
        pid
        for pid in filter(str.isdecimal, os.listdir("/proc"))
        if open(f"/proc/{pid}/stat").read().rpartition(") ")[2][0] == "Z"
    ]

while zombies() or len(list(filter(str.isdecimal, os.listdir("/proc")))) > 2:
    time.sleep(0.01)
sys.exit(7)
"""
)


def _can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], check=False).returncode == 0


pytestmark = pytest.mark.skipif(
    not _can_unshare(), reason="needs a process namespace of its own"
)


@contextmanager
def first(program: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a program as the first process of a namespace."""
    command = [*UNSHARE, sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def first_pid(process: subprocess.Popen[str]) -> int:
    """The process id, out here, of the first process in there."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(path.read_text, "unshare has no child")
    return int(path.read_text())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_without_a_handler_ends_it(number: signal.Signals) -> None:
    """The kernel would drop the signal; the status is the shell's for that signal."""
    with first(SLEEPING) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(first_pid(process), number)

        # Python turns SIGINT into an exception, and ends by the signal after it.
        assert process.wait(60) == 128 + number


def test_orphans_leave_no_zombies() -> None:
    """The program gets its own children's exit statuses, and its own is kept."""
    with first(ORPHANS) as process:
        assert process.wait(120) == 7


def test_other_processes_go_on_as_they_are() -> None:
    """Only the first one of a namespace needs an init."""
    program = PROGRAM.replace("assert", "#") + "print(os.getpid())"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.read()) == process.pid
