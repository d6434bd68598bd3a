"""The fuzzer repeats itself by its seed, and judges what it sees."""

import json
import random

import pytest

from hookline_faults.fuzzing.aftermath import faults_in
from hookline_faults.fuzzing.canary import Sighting, Watch
from hookline_faults.fuzzing.json_text import Literal, Members, Nested, json_bytes
from hookline_faults.fuzzing.mutator import mutated, pieces_of
from hookline_faults.fuzzing.raw_http import raw_case
from hookline_faults.fuzzing.responses import Response, fault_of, statuses
from hookline_faults.fuzzing.watching import Watched, own_seconds

OVERLOADED = json.dumps({"error": {"code": "overloaded", "message": "a"}}).encode()
INTERNAL = json.dumps({"error": {"code": "internal_error", "message": "a"}}).encode()


def test_the_same_seed_makes_the_same_cases() -> None:
    """
    Cases are a function of the seed, so a run can be repeated.
    """
    first, second = random.Random(3), random.Random(3)  # noqa: S311

    assert [raw_case(first) for _ in range(50)] == [raw_case(second) for _ in range(50)]


def test_mutations_change_most_data_and_keep_it_small() -> None:
    """
    The mutator changes what it gets, and does not make it huge.
    """
    source = random.Random(3)  # noqa: S311
    data = b"a right request"

    found = {mutated(data, source) for _ in range(200)}

    assert len(found) > 150
    assert max(map(len, found)) < 100_000


def test_pieces_are_the_whole() -> None:
    """
    Data in pieces are the same data.
    """
    source = random.Random(3)  # noqa: S311

    for _ in range(50):
        assert b"".join(pieces_of(b"0123456789", source, 5)) == b"0123456789"


def test_text_that_is_not_quite_json_can_be_written() -> None:
    """
    Keys may occur twice, literals need not be JSON, and nesting can be deep.
    """
    body = Members([("a", 1), ("a", Literal("NaN")), ("b", Nested(2, is_object=False))])

    assert json_bytes(body) == b'{"a":1,"a":NaN,"b":[[1]]}'


def test_the_machines_own_stalls_are_left_out() -> None:
    """
    A wait counts only while the echo server answered and a processor was free.
    """
    echo = [(9.0, 2.0, 0.0), (12.5, 9.0, 0.0)]

    assert own_seconds((10.0, 3.0, 0.0), echo) == pytest.approx(1.5)
    assert own_seconds((10.0, 3.0, 2.0), echo) == pytest.approx(1.0)
    assert own_seconds((10.0, 3.0, 9.0), echo) == 0.0


def test_a_canary_without_answers_is_a_fault() -> None:
    """
    Nothing seen at all is not taken for nothing wrong.
    """
    seen = Watched(Sighting(health=Watch(count=1), echo=Watch(count=1)))

    assert seen.faults == {"stream: nothing came at all": 1}


@pytest.mark.parametrize(
    ("status", "body", "is_fault"),
    [
        (200, b"", False),
        (400, INTERNAL, False),
        (400, b"plain text", True),
        (500, INTERNAL, True),
        (503, OVERLOADED, False),
        (503, INTERNAL, True),
        (504, INTERNAL, True),
    ],
)
def test_responses_are_judged(status: int, body: bytes, *, is_fault: bool) -> None:
    """
    A 5xx is a fault unless it is overload, and so is an error that is not JSON.
    """
    response = Response(status, body, closes=False)

    assert bool(fault_of(response, may_time_out=False, is_head=False)) is is_fault


def test_statuses_are_found_in_pipelined_responses() -> None:
    """
    All responses of a connection count.
    """
    data = b'HTTP/1.1 200 OK\r\n\r\n{"a": 1}HTTP/1.1 400 Bad Request\r\n\r\n'

    assert statuses(data) == [200, 400]


def test_tracebacks_in_a_log_are_found() -> None:
    """
    A traceback in the log is a fault.
    """
    log = "all well\nTraceback (most recent call last):\n  File a\nValueError: b\n"

    assert len(faults_in(log)) == 1
