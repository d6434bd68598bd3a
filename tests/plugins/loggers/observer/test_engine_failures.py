"""One failure of an engine, with the requests of all front ends that have ended."""

from hookline_observer.engine_failures import (
    MOST_REPORTS,
    MOST_SILENT_REPORTS,
    EngineFailures,
)
from hookline_observer.messages import Failed


def failed(open_requests: int, engine: int = 0, *, is_final: bool = False) -> Failed:
    return Failed(engine, "it fell", open_requests, is_final)


def made() -> tuple[EngineFailures, list[Failed]]:
    told: list[Failed] = []
    return EngineFailures(told.append, lambda _, __: None), told


def test_the_owner_alone_is_told_at_once() -> None:
    """
    A server without further front ends has nobody to wait for.
    """
    failures, told = made()

    failures.add(0, failed(3), {0}, is_owner=True)

    assert told == [failed(3)]


def test_all_front_ends_are_added_up_in_any_order() -> None:
    """
    The owner tells of the end, and each of them of its own requests.
    """
    failures, told = made()

    failures.add(2, failed(63), {0, 1, 2}, is_owner=False)
    failures.add(0, failed(0), {0, 1, 2}, is_owner=True)
    assert told == []
    failures.add(1, failed(78), {0, 1, 2}, is_owner=False)

    assert told == [failed(141)]


def test_one_that_says_nothing_is_not_waited_for() -> None:
    """
    It may have ended, too; what is known is told after some seconds.
    """
    failures, told = made()
    failures.add(1, failed(5), {0, 1, 2}, is_owner=False)
    failures.add(0, failed(1), {0, 1, 2}, is_owner=True)

    for _ in range(MOST_REPORTS + 1):
        failures.settle_late()

    assert told == [failed(6)]


def test_it_is_told_before_the_engines_next_start_and_before_the_end() -> None:
    """
    Whatever is missing then: the loggers' order of events is kept.
    """
    failures, told = made()
    for engine in (0, 1):
        failures.add(0, failed(1, engine), {0, 1}, is_owner=True)

    failures.settle(0)
    assert told == [failed(1, 0)]
    failures.settle_all()

    assert told == [failed(1, 0), failed(1, 1)]


def test_two_failures_are_two() -> None:
    """
    A replacement that fails to start is another failure, with its own requests.
    """
    failures, told = made()
    failures.add(0, failed(1), {0, 1}, is_owner=True)
    failures.add(0, failed(0, is_final=True), {0, 1}, is_owner=True)
    assert told == []
    failures.add(1, failed(4), {0, 1}, is_owner=False)
    failures.add(1, failed(2, is_final=True), {0, 1}, is_owner=False)

    assert told == [failed(5), failed(2, is_final=True)]


def test_one_that_ends_is_not_waited_for() -> None:
    """
    What the others have told is all that will ever be known.
    """
    failures, told = made()
    failures.add(0, failed(1), {0, 1}, is_owner=True)

    failures.leave(1)

    assert told == [failed(1)]


def test_a_share_without_a_failure_is_forgotten() -> None:
    """
    A front end that leaves an engine which its owner ends tells of it, too.
    """
    failures, told = made()
    failures.add(1, failed(9), {0, 1}, is_owner=False)
    for _ in range(MOST_SILENT_REPORTS):
        failures.settle_late()

    failures.add(0, failed(1), {0}, is_owner=True)

    assert told == [failed(1)]
