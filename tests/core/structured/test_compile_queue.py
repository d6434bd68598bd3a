"""The order in which grammars are compiled: clients by their time, quick ones first."""

import pytest

from hookline.structured_outputs import GrammarKind
from hookline_grammars import compile_queue
from hookline_grammars.compile_queue import (
    MOST_QUICK,
    CompileQueue,
    Job,
    Pace,
    pace_of,
)
from hookline_grammars.spec import GrammarSpec

BOOLEAN = '{"type": "object", "properties": {"yes": {"type": "boolean"}}}'


def job(name: str, client: str = "", pace: Pace = Pace.UNKNOWN) -> Job:
    spec = GrammarSpec(GrammarKind.REGEX, name)
    return Job(name.encode(), spec, (client, ""), pace)


def popped(queue: CompileQueue, seconds: float = 0.1) -> str:
    """Takes the next grammar, which takes its client so much time."""
    found = queue.pop()
    queue.charge(found.client, seconds)
    return found.key.decode()


def test_a_client_with_many_grammars_delays_another_one_by_one_only() -> None:
    """
    Whose single grammar is next, however many were there before.
    """
    queue = CompileQueue()
    for number in range(24):
        queue.push(job(f"slow {number}", "many"))
    assert popped(queue, seconds=0.6) == "slow 0"

    queue.push(job("boolean", "one"))

    assert popped(queue) == "boolean"
    assert [popped(queue) for _ in range(2)] == ["slow 1", "slow 2"]
    assert queue.length == 21


def test_clients_share_the_time_and_not_the_number() -> None:
    """
    Who has taken more time waits until the others have had as much.
    """
    queue = CompileQueue()
    for number in range(8):
        queue.push(job(f"a{number}", "slow"))
        queue.push(job(f"b{number}", "fast"))
    costs = {"a": 0.4, "b": 0.1}
    order = ""
    for _ in range(9):
        found = queue.pop()
        letter = found.key.decode()[0]
        queue.charge(found.client, costs[letter])
        order += letter

    assert order.count("a") == 2


def test_a_client_that_was_away_has_no_credit() -> None:
    """
    It shares from now on, as if it had always been there.
    """
    queue = CompileQueue()
    for number in range(6):
        queue.push(job(f"a{number}", "a"))
    for _ in range(3):
        popped(queue, seconds=1.0)

    for number in range(3):
        queue.push(job(f"b{number}", "b"))

    order = [popped(queue, seconds=1.0)[0] for _ in range(6)]
    assert sorted(order[:4]) == ["a", "a", "b", "b"]


def test_what_looks_quick_passes_its_own_clients_others() -> None:
    """
    And what has exceeded its trial comes last.
    """
    queue = CompileQueue()
    queue.push(job("tried", pace=Pace.SLOW))
    queue.push(job("unknown"))
    queue.push(job("quick", pace=Pace.LOOKS_QUICK))

    order = [popped(queue) for _ in range(3)]

    assert order == ["quick", "unknown", "tried"]


def test_slow_ones_have_their_turn() -> None:
    """
    However many quick ones go on coming.
    """
    queue = CompileQueue()
    queue.push(job("tried", "a", Pace.SLOW))
    order = []
    for number in range(MOST_QUICK + 1):
        queue.push(job(f"quick {number}", "b"))
        order.append(popped(queue))

    assert order.index("tried") == MOST_QUICK


def test_a_payer_gains_nothing_by_claiming_to_be_many() -> None:
    """
    Its tenants take turns among each other, in the time of one.
    """
    queue = CompileQueue()
    for number in range(8):
        spec = GrammarSpec(GrammarKind.REGEX, f"{number}")
        queue.push(Job(b"many", spec, ("one key", f"tenant {number}"), Pace.UNKNOWN))
    popped(queue, seconds=0.6)
    queue.push(job("another", "another key"))

    assert popped(queue) == "another"


def test_clients_that_wait_for_nothing_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    So that many addresses cost no memory.
    """
    most = 64
    monkeypatch.setattr(compile_queue, "MOST_PAYERS", most)
    queue = CompileQueue()
    for number in range(2 * most):
        queue.push(job(f"{number}", f"client {number}"))
        popped(queue)

    assert len(queue._payers) <= most + 1


@pytest.mark.parametrize(
    ("kind", "source", "pace"),
    [
        (GrammarKind.CHOICE, '["a", "b"]', Pace.LOOKS_QUICK),
        (GrammarKind.JSON_OBJECT, "", Pace.LOOKS_QUICK),
        (GrammarKind.JSON, BOOLEAN, Pace.LOOKS_QUICK),
        (GrammarKind.JSON, '{"type": "string", "pattern": "a"}', Pace.UNKNOWN),
        (GrammarKind.JSON, BOOLEAN + " " * 5000, Pace.UNKNOWN),
        (GrammarKind.REGEX, "a", Pace.UNKNOWN),
        (GrammarKind.GRAMMAR, "root ::= a", Pace.UNKNOWN),
    ],
)
def test_looks(kind: GrammarKind, source: str, pace: Pace) -> None:
    """
    Short schemas without patterns, lengths and references look quick.
    """
    assert pace_of(GrammarSpec(kind, source)) is pace
