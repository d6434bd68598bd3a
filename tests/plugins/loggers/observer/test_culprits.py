"""Which logger has ended the observer process, by what is known of its ends."""

import os

import pytest

from hookline_observer.call_marks import CallMarks, MarkFile
from hookline_observer.culprits import (
    ENDS,
    KILLED_ENDS,
    QUIET_SECONDS,
    RECENT_SECONDS,
    Culprits,
)

LOGGERS = ("a", "b", "c", "d", "e")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("by_itself", "ends"), [(True, ENDS), (False, KILLED_ENDS)])
def test_who_is_called_each_time_is_left_out(*, by_itself: bool, ends: int) -> None:
    """
    Once is not enough, since others may end the process while it is called; the kernel
    does so when memory has run out.
    """
    culprits = Culprits(LOGGERS)

    found = [culprits.ended({"b"}, by_itself=by_itself) for _ in range(ends)]

    assert found == [None] * (ends - 1) + ["b"]
    assert culprits.left_out == ("b",)
    assert culprits.running == ("a", "c", "d", "e")


def test_those_that_were_called_together_take_turns() -> None:
    """
    From then on only one of them is called at a time.
    """
    culprits = Culprits(LOGGERS)

    culprits.ended({"a", "b", "c"}, by_itself=True)
    assert culprits.suspects == {"a", "b", "c"}

    assert culprits.ended({"c"}, by_itself=True) == "c"
    assert culprits.suspects == frozenset()


def test_one_that_hangs_beside_it_is_told_apart() -> None:
    """
    It is called whenever the process ends, so each of them is set aside for once.
    """
    for guilty in "ab":
        culprits = Culprits(LOGGERS)
        found = None
        for _ in range(5):
            called = {"a", "b"} & {*culprits.running}
            if guilty not in called:
                break
            found = found or culprits.ended(called, by_itself=True)
        if found is None:  # it is the one that was set aside
            culprits._ended_at = -RECENT_SECONDS
            assert culprits.look()

        assert culprits.left_out == (guilty,)


@pytest.mark.parametrize("guilty", LOGGERS)
def test_one_that_does_it_between_calls_is_found(guilty: str) -> None:
    """
    Halves are set aside until only it is left.
    """
    clock = Clock()
    culprits = Culprits(LOGGERS, clock)

    for _ in range(10):
        clock.now += 5.0
        if guilty in culprits.running:
            culprits.ended((), by_itself=True)
        else:
            clock.now += QUIET_SECONDS
            assert culprits.look()
        if culprits.left_out:
            break

    assert culprits.left_out == (guilty,)
    assert culprits.running == tuple(each for each in LOGGERS if each != guilty)


def test_kills_from_outside_blame_nobody_who_is_not_called() -> None:
    """
    Whoever kills the process now and then costs no logger.
    """
    culprits = Culprits(LOGGERS)

    for _ in range(10):
        assert culprits.ended((), by_itself=False) is None

    assert culprits.running == LOGGERS
    assert not culprits.look()


def test_ends_long_ago_do_not_count() -> None:
    """
    An end each few hours says nothing.
    """
    clock = Clock()
    culprits = Culprits(LOGGERS, clock)

    for _ in range(5):
        assert culprits.ended({"b"}, by_itself=True) is None
        clock.now += 2 * RECENT_SECONDS


def test_marks_outlive_their_process() -> None:
    """
    The owner reads who was being called when nothing was said any more; a new process
    begins without marks, and an old one that still writes does not reach them.
    """
    file = MarkFile(LOGGERS)
    marks = CallMarks(os.dup(file.renew()), LOGGERS, suspects={"c", "d"})

    with marks.around("b"), marks.around("c"):
        assert file.called == {"b", "c"}
    assert not file.called

    with marks.around("e"):
        file.renew()
        assert not file.called
    file.close()
