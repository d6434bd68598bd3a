"""What a front end could not tell before it was killed is told in its place."""

from hookline.events import Finished
from hookline.finish_cause import Aborted
from hookline_observer.messages import Ended
from hookline_observer.unreported_ends import MOST_GONE, UnreportedEnds

FRONT_END = 3


def ends(*request_ids: int) -> list[Finished]:
    return [Finished(each, 0, Aborted("test"), 1) for each in request_ids]


def test_what_it_has_told_is_left_out() -> None:
    """An engine lists the ends that it has sent; the rest is unreported."""
    unreported = UnreportedEnds()
    unreported.on_reported(FRONT_END, [1, 2])
    unreported.left(FRONT_END)

    [found] = unreported.listed(Ended(0, FRONT_END, ends(1, 2, 4)))

    assert found == Ended(0, FRONT_END, ends(4))


def test_a_list_waits_for_the_front_ends_last_notices() -> None:
    """They may still come when the engine's list is there; nothing is told twice."""
    unreported = UnreportedEnds()

    early = unreported.listed(Ended(1, FRONT_END, ends(1, 2)))
    unreported.on_reported(FRONT_END, [2])
    found = unreported.left(FRONT_END)

    assert early == []
    assert found == [Ended(1, FRONT_END, ends(1))]
    assert unreported.left(FRONT_END) == []


def test_each_engine_lists_its_own() -> None:
    """Both before and after the front end has left."""
    unreported = UnreportedEnds()

    unreported.listed(Ended(0, FRONT_END, ends(1)))
    first = unreported.left(FRONT_END)
    second = unreported.listed(Ended(1, FRONT_END, ends(2)))

    assert first == [Ended(0, FRONT_END, ends(1))]
    assert second == [Ended(1, FRONT_END, ends(2))]


def test_few_are_remembered() -> None:
    """The latest front ends that have ended, and nothing of those before."""
    unreported = UnreportedEnds()
    for front_end in range(MOST_GONE + 5):
        unreported.on_reported(front_end, [front_end])
        unreported.left(front_end)

    assert len(unreported._gone) == MOST_GONE
    assert unreported._reported == unreported._lists == {}
