"""The earliest of a changing set of requests."""

from hypothesis import given
from hypothesis import strategies as st

from hookline.engine.scheduler.queue import RequestTimes
from hookline.request import Request
from hookline_testing.simulation import engine_request


def request_of(sequence: int, queued_at: int = 0) -> Request:
    inner = engine_request(sequence, [1])
    return Request(inner, sequence=sequence, queued_at=queued_at, max_tokens=1)


def test_no_request_has_no_time() -> None:
    """Neither at first nor after the last one has left."""
    times, request = RequestTimes(), request_of(1, 5)

    told = [times.earliest]
    times.add(request, request.queued_at)
    told.append(times.earliest)
    times.remove(request)
    told.append(times.earliest)

    assert told == [None, 5, None]


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans())))
def test_it_is_the_earliest_of_those_that_are_there(
    changes: list[tuple[int, bool]],
) -> None:
    """Requests may leave and come back in any order."""
    times, there = RequestTimes(), set[int]()
    requests = [request_of(number, queued_at=7 * number % 10) for number in range(10)]

    for number, comes in changes:
        if comes and number not in there:
            times.add(requests[number], requests[number].queued_at)
            there.add(number)
        elif not comes and number in there:
            times.remove(requests[number])
            there.remove(number)
        known = [requests[each].queued_at for each in there]
        assert times.earliest == min(known, default=None)


def test_requests_that_come_and_go_leave_no_litter() -> None:
    """Entries of removed requests are swept, also behind one that stays."""
    times = RequestTimes()
    times.add(request_of(0), 0)

    for sequence in range(1, 1000):
        request = request_of(sequence, queued_at=sequence)
        for _ in range(3):
            times.add(request, request.queued_at)
            times.remove(request)

    assert times.earliest == 0
    assert len(times._heap) < 50


def test_the_earliest_is_due_when_its_time_has_come() -> None:
    """It stays due until it is removed, and then the next one may be."""
    times, requests = RequestTimes(), [request_of(1), request_of(2)]
    times.add(requests[0], 5)
    times.add(requests[1], 3)

    told = [times.due(2), times.due(3), times.due(9)]
    times.remove(requests[1])
    told += [times.due(4), times.due(5)]

    assert told == [None, requests[1], requests[1], None, requests[0]]
