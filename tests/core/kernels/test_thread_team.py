"""A team of threads computes jobs, each kernel by whoever is there."""

import ctypes
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import types

from hookline_kernels.cpu.elements import array_at
from hookline_kernels.cpu.jit import compile_kernel
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.team import ThreadTeam
from hookline_testing.own_time import Deadline

ITEMS = 24
Int64 = np.ndarray[Any, np.dtype[np.int64]]


@pytest.fixture
def team() -> Iterator[ThreadTeam]:
    team = ThreadTeam(4)
    yield team
    team.close()


@pytest.fixture(scope="module")
def add_one() -> Any:
    """A kernel: each item of the second row is one more than the first row's."""

    def body(numbers: Any) -> None:
        given = array_at(numbers, 4, np.int64)
        before = array_at(given[2], given[1], np.int64)
        after = array_at(given[3], given[1], np.int64)
        item = take(numbers, 1)
        while item < given[1]:
            after[item] = before[item] + 1
            item = take(numbers, 1)

    signature: Any = types.void(types.intp)
    return compile_kernel(body, signature, "test-add-one")


class Chain:
    """A job: each kernel adds one to the result of the kernel before."""

    def __init__(self, kernel: Any, length: int, *, alone_every: int) -> None:
        self.values: Int64 = np.zeros((length + 1, ITEMS), np.int64)
        self.arguments: Int64 = np.zeros((length, 4), np.int64)
        self.arguments[:, 1] = ITEMS
        for index, row in enumerate(self.arguments):
            row[2] = self.values[index].ctypes.data
            row[3] = self.values[index + 1].ctypes.data
        self.entries: Int64 = np.zeros((length, 3), np.int64)
        self.entries[:, 0] = kernel.address
        self.entries[:, 1] = [row.ctypes.data for row in self.arguments]
        self.entries[::alone_every, 2] = 1

    def run(self, team: ThreadTeam, threads: int, start: int) -> None:
        """Computes it, and checks all results."""
        self.values[0], self.values[1:] = start, -1
        self.arguments[:, 0] = 0
        team.run(self.entries.ctypes.data, len(self.entries), threads)
        expected = start + np.arange(len(self.values))
        assert (self.values == expected[:, None]).all()


def test_each_kernel_sees_all_results_of_the_one_before(
    team: ThreadTeam, add_one: Any
) -> None:
    """With any number of threads from job to job, and kernels of one thread between."""
    for length, alone_every in ((1, 9), (300, 7), (300, 400), (5, 1)):
        chain = Chain(add_one, length, alone_every=alone_every)
        for start, threads in enumerate([1, 2, 4, 3, 2, 4] * 8):
            chain.run(team, threads, start)


def test_results_are_the_same_on_cores_of_their_own(
    team: ThreadTeam, add_one: Any
) -> None:
    """From job to job, with any number of threads."""
    chain, allowed = Chain(add_one, 30, alone_every=7), os.sched_getaffinity(0)
    for start, threads in enumerate([2, 2, 1, 4, 2] * 8):
        team.keeps_cores = start % 3 != 2
        chain.run(team, threads, start)

    assert os.sched_getaffinity(0) == allowed


def test_late_threads_compute_nothing_of_jobs_that_are_gone(
    team: ThreadTeam, add_one: Any
) -> None:
    """Sleeping threads wake up in the middle of later jobs."""
    chain = Chain(add_one, 2, alone_every=3)
    for start in range(3000):
        chain.run(team, 4, start)


def test_several_threads_bring_jobs_at_once(team: ThreadTeam, add_one: Any) -> None:
    """Who finds the team busy computes alone."""
    chains = [Chain(add_one, 50, alone_every=5) for _ in range(3)]
    failed = []

    def compute(chain: Chain) -> None:
        try:
            for start in range(100):
                chain.run(team, 3, start)
        except AssertionError as error:
            failed.append(error)

    callers = [threading.Thread(target=compute, args=(each,)) for each in chains]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()

    assert not failed


def test_a_closed_team_starts_again(team: ThreadTeam, add_one: Any) -> None:
    """Its threads end, and the next job starts others."""
    chain = Chain(add_one, 20, alone_every=3)
    assert team.native_ids == ()

    for start in range(5):
        chain.run(team, 4, start)
        assert len(team.native_ids) == 3
        assert team.close()
        assert team.native_ids == ()


def test_a_forked_child_has_threads_of_its_own(team: ThreadTeam, add_one: Any) -> None:
    """Its parent's do not exist there."""
    chain = Chain(add_one, 20, alone_every=3)
    chain.run(team, 3, 0)

    if (child := os.fork()) == 0:
        team.forget_threads()
        try:
            chain.run(team, 3, 5)
            os._exit(len(team.native_ids))
        finally:
            os._exit(99)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    chain.run(team, 3, 7)


def test_threads_may_lose_their_cores_within_a_job(
    team: ThreadTeam, add_one: Any
) -> None:
    """Results stay right, whatever it was doing."""
    chain = Chain(add_one, 200, alone_every=9)
    chain.run(team, 4, 0)
    ended = threading.Event()

    def disturb() -> None:
        while not ended.is_set():
            for thread in team.native_ids:
                os.sched_setaffinity(thread, {min(os.sched_getaffinity(0))})
                time.sleep(0.0005)
                os.sched_setaffinity(thread, os.sched_getaffinity(0))

    other = threading.Thread(target=disturb)
    other.start()
    try:
        for start in range(200):
            chain.run(team, 4, start)
    finally:
        ended.set()
        other.join()


def test_waits_of_callers_are_counted(team: ThreadTeam, add_one: Any) -> None:
    """A caller waits if others are not done, but never in a job of one thread."""
    chain, deadline = Chain(add_one, 300, alone_every=7), Deadline(30)
    chain.run(team, 1, 0)
    alone = team.waited_ns

    while team.waited_ns == 0:
        assert deadline.is_ahead
        chain.run(team, 4, 0)

    assert alone == 0


def test_threads_sleep_when_there_is_nothing_to_do(
    team: ThreadTeam, add_one: Any
) -> None:
    """After a while without a job."""
    Chain(add_one, 20, alone_every=3).run(team, 4, 0)

    deadline = Deadline(30)
    while not all(map(_is_asleep, team.native_ids)):
        assert deadline.is_ahead
        time.sleep(0.01)


def _is_asleep(thread: int) -> bool:
    stat = Path(f"/proc/self/task/{thread}/stat").read_text("ascii")
    return stat.rpartition(")")[2].split()[0] == "S"


def test_threads_take_no_signals(team: ThreadTeam, add_one: Any) -> None:
    """They are for the main thread, whose calls they interrupt."""
    Chain(add_one, 20, alone_every=3).run(team, 3, 0)

    for thread in team.native_ids:
        status = Path(f"/proc/self/task/{thread}/status").read_text("ascii")
        [blocked] = [line for line in status.splitlines() if "SigBlk" in line]
        assert int(blocked.split()[1], 16) >> (signal.SIGINT - 1) & 1


def test_the_number_of_threads_is_limited(team: ThreadTeam) -> None:
    """It is one at least."""
    team.threads = 4

    for number in (0, 5):
        with pytest.raises(ValueError, match="1 to 4"):
            team.threads = number

    assert team.threads == 4


def test_one_kernel_is_a_job(team: ThreadTeam, add_one: Any) -> None:
    chain = Chain(add_one, 1, alone_every=3)
    for threads in (1, 3):
        chain.values[1] = chain.arguments[0, 0] = 0
        argument = chain.arguments[0].ctypes.data_as(ctypes.c_void_p).value
        assert argument is not None

        team.run_one(add_one.address, argument, threads)

        assert (chain.values[1] == chain.values[0] + 1).all()
