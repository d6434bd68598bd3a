"""What a client can say of a run by itself."""

from itertools import pairwise

from truth_panels import PANELS, Seen
from truth_table import Row, table

from hookline_bench.answer import Answer


def answer(sent_at: float, ended_at: float) -> Answer:
    """Three tokens: the first half-way, the others at the end."""
    middle = (sent_at + ended_at) / 2
    return Answer(
        due_at=sent_at,
        sent_at=sent_at,
        ended_at=ended_at,
        prompt_tokens=10,
        output_tokens=3,
        cached_tokens=4,
        times=[middle, ended_at],
        counts=[1, 2],
    )


# Two seats: the third waits for the end of the second, the fourth for no one.
SEEN = Seen([answer(0, 8), answer(1, 3), answer(2, 6), answer(7, 9)], seats=2)


def test_requests_wait_for_a_free_seat() -> None:
    """
    A request begins when it is sent or, if all seats are taken, at the next end.
    """
    assert list(SEEN.starts()) == [0, 1, 3, 7]
    assert SEEN.queue_seconds() == [0, 0, 1, 0]


def test_running_and_in_flight_are_means_over_the_run() -> None:
    """
    Seats count from the start of a request, requests in flight from their sending.
    """
    assert SEEN.seconds == 9
    assert SEEN.running() == (8 + 2 + 3 + 2) / 9
    assert SEEN.in_flight() == (8 + 2 + 4 + 2) / 9


def test_panels_of_the_client() -> None:
    """
    Counts are sums, latencies those of the stream, and all titles differ.
    """
    values = {panel.name: panel.client(SEEN) for panel in PANELS}

    assert len(values) == len(PANELS) >= 10
    assert values["finished requests"] == 4
    assert values["prompt tokens"] == 40
    assert values["cached prompt tokens"] == 16
    assert values["generated tokens"] == 12
    assert values["time to first token mean"] == (4 + 1 + 2 + 1) / 4
    assert values["end-to-end latency mean"] == (8 + 2 + 4 + 2) / 4
    assert values["inter-token latency mean"] == (2 + 0.5 + 1 + 0.5) / 4
    assert values["queue time mean"] == 0.25


def test_table_has_both_sides() -> None:
    """
    Counts are shown whole, spans in milliseconds, and equal values by a word.
    """
    by_name = {panel.name: panel for panel in PANELS}
    rows = [
        Row(by_name["finished requests"], 4.0, 4.0),
        Row(by_name["queue time mean"], 0.25, 0.2),
        Row(by_name["running requests"], 0.0, 1.0),
    ]

    lines = table(rows).splitlines()

    assert lines[2:] == [
        "| finished requests | 4 | 4 | equal |",
        "| queue time mean | 250.00 ms | 200.00 ms | 0.800 |",
        "| running requests | 0.00 | 1.00 | nan |",
    ]
    assert all(a.count("|") == b.count("|") for a, b in pairwise(lines))
