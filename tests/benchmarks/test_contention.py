"""Neighbours of a measurement: how many there are, and that they end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from contention import Contention, Neighbours
from cpu_quota import QuotaUnavailable

from hookline_testing.own_time import Deadline

HERE = Path(__file__).parents[2] / "benchmarks"
OWNER = f"""
import sys, time
sys.path.append({str(HERE)!r})
from contention import Contention, Neighbours
with Contention().beside(Neighbours.TWO):
    print("running", flush=True)
    time.sleep(60)
"""


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(each) for task in tasks for each in task.read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline = Deadline(20)
    while not condition():
        if not deadline.is_ahead:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize(
    ("neighbours", "count"),
    [(Neighbours.QUIET, 0), (Neighbours.ONE, 1), (Neighbours.TWO, 2)],
)
def test_processes_run_while_wanted(neighbours: Neighbours, count: int) -> None:
    """As many processes run as the name says, and none after the block."""
    before = set(children(os.getpid()))

    with Contention().beside(neighbours):
        started = set(children(os.getpid())) - before

    assert len(started) == count
    assert not any(is_alive(pid) for pid in started)


def test_bursts_start_short_processes() -> None:
    """The neighbour of bursts starts processes of its own, one after another."""
    before = set(children(os.getpid()))
    seen: set[int] = set()

    def has_seen_two_rounds() -> bool:
        seen.update(children(burst))
        return len(seen) > 4

    with Contention().beside(Neighbours.BURSTS):
        [burst] = set(children(os.getpid())) - before

        assert wait_until(has_seen_two_rounds)


def test_neighbours_end_with_a_killed_owner() -> None:
    """Not even an owner that is killed leaves neighbours behind."""
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE) as own:
        assert own.stdout is not None
        own.stdout.readline()
        started = children(own.pid)

        own.send_signal(signal.SIGKILL)
        own.wait()

    assert len(started) == 2
    assert wait_until(lambda: not any(is_alive(pid) for pid in started))


def test_a_quota_needs_a_group() -> None:
    """A quota without a group of the measured process is refused."""
    quota = Contention().beside(Neighbours.QUOTA_50)

    with pytest.raises(QuotaUnavailable, match="has no control group"), quota:
        pytest.fail("entered")


def test_the_share_of_a_quota() -> None:
    """A quota is a share of the cores, and never more than all."""
    assert Neighbours.QUOTA_150.share(2) == 0.75
    assert Neighbours.QUOTA_150.share(1) == 1.0
    assert Neighbours.TWO.share(2) == 1.0
