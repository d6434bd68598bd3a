"""The oldest of a changing set of requests."""

from hypothesis import given
from hypothesis import strategies as st

from hookline.engine.scheduler.queue import OldestRequest
from hookline.request import Request
from hookline_testing.simulation import engine_request


def request_of(sequence: int, queued_at: int = 0) -> Request:
    inner = engine_request(sequence, [1])
    return Request(inner, sequence=sequence, queued_at=queued_at, max_tokens=1)


def test_no_request_has_no_time() -> None:
    """Neither at first nor after the last one has left."""
    oldest, request = OldestRequest(), request_of(1, 5)

    told = [oldest.queued_at]
    oldest.add(request)
    told.append(oldest.queued_at)
    oldest.remove(request)
    told.append(oldest.queued_at)

    assert told == [None, 5, None]


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans())))
def test_it_is_the_earliest_of_those_that_are_there(
    changes: list[tuple[int, bool]],
) -> None:
    """Requests may leave and come back in any order."""
    oldest, there = OldestRequest(), set[int]()
    requests = [request_of(number, queued_at=7 * number % 10) for number in range(10)]

    for number, comes in changes:
        if comes and number not in there:
            oldest.add(requests[number])
            there.add(number)
        elif not comes and number in there:
            oldest.remove(requests[number])
            there.remove(number)
        times = [requests[each].queued_at for each in there]
        assert oldest.queued_at == min(times, default=None)


def test_requests_that_come_and_go_leave_no_litter() -> None:
    """Entries of removed requests are swept, also behind one that stays."""
    oldest = OldestRequest()
    oldest.add(request_of(0))

    for sequence in range(1, 1000):
        request = request_of(sequence, queued_at=sequence)
        for _ in range(3):
            oldest.add(request)
            oldest.remove(request)

    assert oldest.queued_at == 0
    assert len(oldest._heap) < 50
