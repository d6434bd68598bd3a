"""Clients take turns, whatever each of them has queued."""

import pytest

from hookline_processes.fair_queue import FairQueue


def test_clients_take_turns() -> None:
    """One client's many items do not delay another's only one."""
    queue: FairQueue[str] = FairQueue()
    for item in ("a1", "a2", "a3"):
        queue.push(("a", ""), item)
    queue.push(("b", ""), "b1")
    queue.push(("c", ""), "c1")

    order = [queue.pop() for _ in range(queue.length)]

    assert order == ["a1", "b1", "c1", "a2", "a3"]


def test_a_payer_that_claims_many_names_has_one_turn() -> None:
    """Names divide their payer's turns; others wait for one item of it."""
    queue: FairQueue[str] = FairQueue()
    for name in ("x", "x", "y", "z"):
        queue.push(("a", name), f"a{name}")
    for item in ("b1", "b2"):
        queue.push(("b", ""), item)

    order = [queue.pop() for _ in range(queue.length)]

    assert order == ["ax", "b1", "ay", "b2", "az", "ax"]


def test_an_item_can_be_put_back() -> None:
    """It is then the next one, and its client's others keep their order."""
    queue: FairQueue[str] = FairQueue()
    for client, item in (("a", "a1"), ("b", "b1"), ("b", "b2")):
        queue.push((client, ""), item)
    queue.pop()

    queue.push_first(("b", ""), "b0")

    assert [queue.pop() for _ in range(3)] == ["b0", "b1", "b2"]


def test_an_empty_queue_has_nothing() -> None:
    """Clients that have been served leave nothing behind."""
    queue: FairQueue[int] = FairQueue()
    queue.push(("a", ""), 1)
    queue.pop()

    assert queue.length == 0
    with pytest.raises(KeyError):
        queue.pop()
