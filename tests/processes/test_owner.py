"""A process and its owner: messages, and an end that both notice."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hookline_processes.owner import Owner
from hookline_processes.supervised import Output, Supervised
from hookline_testing.waiting import wait_until

WAIT_SECONDS = 60.0
CHILD = """
import os, sys, time
from hookline_processes.owner import run_supervised

def main(owner, arguments):
    owner.watch()
    owner.send_bytes(" ".join(arguments).encode())
    while (body := owner.receive_bytes()) is not None:
        if body == b"sleep":
            time.sleep(60)
        if body == b"stdin":
            body = os.readlink("/proc/self/fd/0").encode()
        if body == b"fork":
            if not (child := os.fork()):
                time.sleep(60)
            body = str(child).encode()
        if body == b"garbage":
            os.write(owner.channel.fileno(), b"\\xff" * 8)
        owner.send_bytes(body)
    return 3

sys.exit(run_supervised(main))
"""
OWNER = """
import os, sys, time
from hookline_processes.supervised import Supervised

process = Supervised("child", name="child")
process.receive_bytes()
if not os.fork():
    time.sleep(60)
print(process.pid, flush=True)
time.sleep(60)
"""
StartChild = Callable[..., Supervised]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartChild]:
    """Starts children; those that a test leaves are killed."""
    (tmp_path / "child.py").write_text(CHILD)
    (tmp_path / "owner.py").write_text(OWNER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    started = []

    def run(*arguments: object, output: Output = Output.LOG) -> Supervised:
        process = Supervised("child", arguments, name="child", output=output)
        started.append(process)
        return process

    yield run

    for each in started:
        each.kill()
        each.close(WAIT_SECONDS)


def has_ended(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return True
    return state in {"Z", "X"}


def wait_for_end(pid: int) -> None:
    wait_until(lambda: has_ended(pid), f"{pid} goes on")


@pytest.mark.parametrize("output", Output)
def test_both_send_messages(start: StartChild, output: Output) -> None:
    """Of any size, and the process has its own arguments."""
    process = start("one", 2, output=output)
    large = b"x" * 1_000_000

    answers = [process.receive_bytes(WAIT_SECONDS)]
    for each in (b"", large):
        process.send_bytes(each)
        answers.append(process.receive_bytes(WAIT_SECONDS))

    assert answers == [b"one 2", b"", large]


def test_process_ends_when_it_is_hung_up_on(start: StartChild) -> None:
    """Whatever it does; messages to it are lost from then on, and none come."""
    process = start()
    process.receive_bytes(WAIT_SECONDS)
    process.send_bytes(b"sleep")

    process.hang_up()
    answer = process.receive_bytes(WAIT_SECONDS)
    process.send_bytes(b"too late")
    process.close(WAIT_SECONDS)

    assert answer is None
    assert process.exit_code == 0
    process.hang_up()
    process.close(0.0)


def test_process_ends_with_its_owner(start: StartChild, tmp_path: Path) -> None:
    """Also one whose owner was killed, and had forked a child that lives on."""
    del start
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "owner.py")], stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        children = Path(f"/proc/{owner.pid}/task/{owner.pid}/children").read_text()
        forked = next(each for each in map(int, children.split()) if each != pid)

        owner.kill()
        owner.wait()
        wait_for_end(pid)

        assert not has_ended(forked)
        os.kill(forked, signal.SIGKILL)


def test_children_of_the_process_do_not_hold_its_channel(start: StartChild) -> None:
    """Its end is noticed while they live on, and their input is empty."""
    process = start()
    process.receive_bytes(WAIT_SECONDS)
    process.send_bytes(b"stdin")
    stdin = process.receive_bytes(WAIT_SECONDS)
    process.send_bytes(b"fork")
    forked = int(process.receive_bytes(WAIT_SECONDS) or b"")

    process.kill()
    process.channel.settimeout(WAIT_SECONDS)

    assert stdin == os.devnull.encode()
    assert process.channel.recv(1) == b""
    assert not has_ended(forked)
    os.kill(forked, signal.SIGKILL)


def test_wait_for_a_message_is_bounded(start: StartChild) -> None:
    """By time, by an event, and by the end of the process, which it tells."""
    process, closing = start(), threading.Event()
    process.receive_bytes(WAIT_SECONDS)

    late = process.receive_bytes(0.0)
    closing.set()
    unwanted = process.receive_bytes(WAIT_SECONDS, closing)
    process.signal(signal.SIGKILL)
    ended = process.receive_bytes(WAIT_SECONDS)

    assert (late, unwanted, ended) == (None, None, None)
    assert "SIGKILL" in (process.end_reason or "")
    assert not process.has_crashed


def test_signals_do_not_end_a_supervised_process(start: StartChild) -> None:
    """From its first moment on, while it imports: a terminal sends them to all."""
    process = start()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
    for number in (*numbers, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        process.signal(number)

    assert process.receive_bytes(WAIT_SECONDS) == b""
    process.signal(signal.SIGHUP)
    process.send_bytes(b"still there")
    assert process.receive_bytes(WAIT_SECONDS) == b"still there"


def test_process_that_sends_garbage_is_killed(
    start: StartChild, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody can know what it means."""
    process = start()
    process.receive_bytes(WAIT_SECONDS)
    process.send_bytes(b"garbage")

    assert process.receive_bytes(WAIT_SECONDS) is None

    process.close(WAIT_SECONDS)
    assert process.exit_code == -signal.SIGKILL
    assert "child is killed: a message of 4294967295 bytes is larger" in caplog.text


def test_owner_that_is_not_the_parent_has_ended() -> None:
    """A process whose parent is another one than its owner does not wait."""
    ours, theirs = socket.socketpair()
    with ours:
        owner = Owner(os.getppid() + 1, theirs.detach())

        owner.wait_until_gone()

        owner.channel.close()


def test_owner_that_hangs_up_while_it_writes_has_gone() -> None:
    """Half a message is none."""
    ours, theirs = socket.socketpair()
    owner = Owner(os.getppid(), theirs.detach())
    with ours:
        ours.sendall(b"\x08\0\0\0half")

    assert owner.receive_bytes() is None
    owner.send_bytes(b"nobody hears it")
    owner.wait_until_gone()
    owner.channel.close()
