"""The signals that stop a server, in processes whose event loops hang."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hookline_testing.own_time import Deadline

PROGRAM = """
import asyncio, logging, subprocess, sys, time

from hookline_server.stop_signals import StopSignals


async def serve(seconds, end):
    signals = StopSignals(seconds)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    print(child.pid, flush=True)
    if end == "hang":
        time.sleep(1000)  # the event loop turns no more
    await signals.requested.wait()
    signals.ends(0)
    if end == "leftovers":
        time.sleep(1000)


logging.basicConfig(level=logging.INFO, format="%(message)s")
asyncio.run(serve(float(sys.argv[1]), sys.argv[2]))
"""
OTHERS = [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE]


@contextmanager
def running(
    seconds: float, end: str, *before: str
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Runs the program and yields it with the process id of its child."""
    command = [*before, sys.executable, "-c", PROGRAM, str(seconds), end]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            yield process, child
        finally:
            process.kill()
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def test_a_hung_event_loop_ends_at_the_deadline_with_its_children() -> None:
    """The status is that of the signal, and standard error has the reason."""
    with running(1.0, "hang") as (process, child):
        os.kill(child, signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)

        status = process.wait(30)
        assert process.stderr is not None
        reason = process.stderr.read()

        assert status == 128 + signal.SIGTERM
        assert reason == "hookline: forced end: it did not end in time\n"
        assert_gone(child)


def test_a_second_signal_ends_a_hung_event_loop_at_once() -> None:
    """The deadline is far away."""
    with running(1000.0, "hang") as (process, child):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)

        assert process.wait(30) == 128 + signal.SIGINT
        assert_gone(child)


@pytest.mark.parametrize("end", ["leftovers", "well"])
def test_the_status_is_0_once_serving_has_ended(end: str) -> None:
    """Also if something hangs after that, such as a thread."""
    with running(1000.0, end) as (process, _):
        process.send_signal(signal.SIGTERM)

        assert process.wait(30) == 0


def test_signals_of_other_servers_meanings_end_nothing() -> None:
    """It goes on after each of them, and says what SIGHUP is not needed for."""
    with running(1000.0, "well") as (process, _):
        for number in OTHERS:
            process.send_signal(number)
        assert process.stderr is not None
        said = process.stderr.readline()
        process.send_signal(signal.SIGQUIT)

        assert process.wait(30) == 0
        assert said.startswith("SIGHUP: serving goes on; key files")


def test_nohup_is_left_as_it_is() -> None:
    """A signal that was ignored from the start stays so."""
    ignoring = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    with running(1000.0, "well", *ignoring) as (process, _):
        status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        fields = dict(line.split(":\t", 1) for line in status)
        bit = 1 << (signal.SIGHUP - 1)

        assert int(fields["SigIgn"], 16) & bit
        assert not int(fields["SigCgt"], 16) & bit


def test_a_lost_terminal_ends_it_like_sigterm() -> None:
    """It drains; nobody can see or stop it any more."""
    leader, follower = os.openpty()
    command = [sys.executable, "-c", PROGRAM, "1000", "well"]
    with subprocess.Popen(
        ["/usr/bin/setsid", "--ctty", *command],
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        os.close(follower)
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            os.close(leader)

            assert process.wait(30) == 0
        finally:
            process.kill()
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def assert_gone(pid: int) -> None:
    """Waits until a process has ended; its zombie counts as ended."""
    deadline = Deadline(20)
    while is_running(pid):
        assert deadline.is_ahead, f"process {pid} is left"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        return False
    return status.rsplit(b")", 1)[1].split()[0] not in (b"Z", b"X")
