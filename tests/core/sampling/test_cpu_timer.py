"""Processor time of quick pieces of work."""

import pytest

from hookline_grammars.cpu_timer import CpuTimer

MS = 1_000_000


class Clocks:
    """Two clocks that a test sets, and how often the second one is read."""

    def __init__(self) -> None:
        self.wall = self.processor = self.asked = 0

    def read_wall(self) -> int:
        return self.wall

    def read_processor(self) -> int:
        self.asked += 1
        return self.processor


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def timer(clocks: Clocks) -> CpuTimer:
    timer = CpuTimer(clocks.read_wall, clocks.read_processor)
    timer.mark()
    clocks.asked = 0
    return timer


def test_quick_pieces_cost_no_question(clocks: Clocks, timer: CpuTimer) -> None:
    """
    They count by the wall clock, which is never less than their processor time.
    """
    begun = timer.begin()
    clocks.wall += MS // 2

    assert timer.since(begun) == MS // 2
    assert clocks.asked == 0


@pytest.mark.parametrize(("used", "counted"), [(3 * MS, 3 * MS), (30 * MS, 20 * MS)])
def test_slow_pieces_count_by_their_processor_time(
    clocks: Clocks, timer: CpuTimer, used: int, counted: int
) -> None:
    """
    A thread that had to wait is not charged for that, and nobody for more than passed.
    """
    begun = timer.begin()
    clocks.wall += 20 * MS
    clocks.processor += used

    assert timer.since(begun) == counted


def test_what_was_before_the_mark_does_not_count(
    clocks: Clocks, timer: CpuTimer
) -> None:
    """
    Nor does a slow piece count again in the next one.
    """
    clocks.processor += 500 * MS
    timer.mark()
    found = []
    for used in (4 * MS, 2 * MS):
        begun = timer.begin()
        clocks.wall += 50 * MS
        clocks.processor += used
        found.append(timer.since(begun))

    assert found == [4 * MS, 2 * MS]
