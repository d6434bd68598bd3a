"""The waiting queue: order, return to an old place, and removal."""

from hookline.config import Policy
from hookline.engine.scheduler.queue import Order, WaitingQueue
from hookline.request import Request
from hookline_testing.simulation import engine_request


def queue_of(policy: Policy, *priorities: int) -> WaitingQueue:
    """A queue of requests 0, 1, … in order of arrival, of 10, 11, … tokens."""
    queue = WaitingQueue(Order(is_by_priority=policy is Policy.PRIORITY))
    for index, priority in enumerate(priorities):
        inner = engine_request(index, [1] * (10 + index), priority=priority)
        queue.push(Request(inner, sequence=index, queued_at=0, max_tokens=1))
    return queue


def pop(queue: WaitingQueue) -> Request:
    request = queue.peek()
    assert request is not None
    queue.pop(request)
    return request


def drain(queue: WaitingQueue) -> list[int]:
    return [pop(queue).request_id for _ in range(len(queue.requests))]


def remove(queue: WaitingQueue, request_id: int) -> None:
    queue.remove(queue.requests[request_id])


def test_fcfs_keeps_the_order_of_arrival() -> None:
    """Under FCFS priorities do not matter."""
    queue = queue_of(Policy.FCFS, 2, 0, 1)

    assert drain(queue) == [0, 1, 2]


def test_priority_puts_lower_first_and_then_arrival() -> None:
    """Under the priority policy equals keep the order of arrival."""
    queue = queue_of(Policy.PRIORITY, 1, 0, 1, -1, 0)

    assert drain(queue) == [3, 1, 4, 0, 2]


def test_returning_request_takes_its_old_place() -> None:
    """A request that is pushed again stands before all that arrived after it."""
    queue = queue_of(Policy.FCFS, 0, 0, 0)
    first = pop(queue)
    pop(queue)

    queue.push(first)

    assert drain(queue) == [0, 2]


def test_removed_request_is_never_served() -> None:
    """Requests can be removed from anywhere, and the rest stays in order."""
    queue = queue_of(Policy.FCFS, *[0] * 6)

    for request_id in (0, 3, 5):
        remove(queue, request_id)

    assert 3 not in queue.requests
    assert list(queue.requests) == [1, 2, 4]
    assert drain(queue) == [1, 2, 4]
    assert not queue.requests


def test_many_removals_leave_no_litter() -> None:
    """Marks of removed requests are swept, so a queue under aborts stays small."""
    queue = queue_of(Policy.FCFS, *[0] * 1000)

    for request_id in range(999):
        remove(queue, request_id)

    assert len(queue._leaders) < 50
    assert drain(queue) == [999]


def test_removed_and_pushed_again_is_served_once() -> None:
    """A request that left and came back is in the queue a single time."""
    queue = queue_of(Policy.FCFS, 0, 0)
    first = queue.peek()
    assert first is not None

    remove(queue, 0)
    queue.push(first)

    assert drain(queue) == [0, 1]
    assert not queue.requests


def test_tokens_are_counted_as_requests_come_and_go() -> None:
    """The count is that of the requests in the queue, whichever way they left."""
    queue = queue_of(Policy.PRIORITY, 2, 0, 1, 1)
    counts = [queue.num_tokens]

    first = pop(queue)
    counts.append(queue.num_tokens)
    remove(queue, 3)
    counts.append(queue.num_tokens)
    first.token_ids += [7, 8]
    queue.push(first)
    counts.append(queue.num_tokens)

    assert counts == [46, 35, 22, 35]
    assert len(drain(queue)) == 3
    assert queue.num_tokens == 0


def test_a_removed_request_does_not_come_back_by_its_id() -> None:
    """Another request with the same id is another request."""
    queue = queue_of(Policy.FCFS, 0, 0)
    remove(queue, 0)
    again = Request(engine_request(0, [1] * 5), sequence=9, queued_at=0, max_tokens=1)
    queue.push(again)

    assert drain(queue) == [1, 0]
    assert queue.num_tokens == 0
