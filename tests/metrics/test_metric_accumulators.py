"""The sums behind the metrics."""

from hookline_metrics.accumulators import (
    Counter,
    Exemplar,
    Histogram,
    RunningTotal,
    TraceAt,
)

A = ("tiny", "0")
B = ("tiny", "1")


def test_histogram_bounds_are_inclusive() -> None:
    """A value equal to a bound falls into that bound's bucket."""
    histogram = Histogram((1.0, 2.0))
    histogram.create(A)

    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.record([(A, value, 1)])

    series = histogram.values[A]
    assert series.counts == {0: 2, 1: 2, 2: 1}
    assert series.sum == 7.5
    assert series.count == 5


def test_histogram_adds_in_bulk() -> None:
    """Observing a value n times at once equals observing it n times."""
    histogram = Histogram((1.0, 2.0))
    histogram.create(A)
    histogram.create(B)

    histogram.record([(A, 1.5, 4)])
    for _ in range(4):
        histogram.record([(B, 1.5, 1)])

    assert histogram.values[A].counts == histogram.values[B].counts == {1: 4}
    assert histogram.values[A].sum == histogram.values[B].sum == 6.0


def test_histogram_created_again_keeps_its_counts() -> None:
    """Creating a series twice changes nothing."""
    histogram = Histogram((1.0,))
    histogram.create(A)
    histogram.record([(A, 1.0, 1)])

    histogram.create(A)

    assert histogram.values[A].counts == {0: 1}


def test_histogram_keeps_the_newest_exemplar_of_each_bucket() -> None:
    """An exemplar replaces the one before it in its bucket and no other."""
    histogram = Histogram((1.0, 2.0))

    histogram.record([(A, 0.5, 1)], TraceAt("a", "1", 10.0))
    histogram.record([(A, 1.5, 1)], TraceAt("b", "2", 11.0))
    histogram.record([(A, 0.6, 1)], TraceAt("c", "3", 12.0))
    histogram.record([(A, 0.7, 1)])

    exemplars = histogram.values[A].exemplars
    assert exemplars == {
        0: Exemplar("c", 0.6, 12.0, "3"),
        1: Exemplar("b", 1.5, 11.0, "2"),
    }


def test_counter_adds_up() -> None:
    """A counter starts at 0 and grows by value times count."""
    counter = Counter()
    counter.create(A)

    counter.record([(A, 2, 1)])
    counter.record([(A, 3, 2)])

    assert counter.values == {A: 8}


def test_running_total_survives_lost_and_stale_readings() -> None:
    """A total takes the newest reading and never goes down."""
    total = RunningTotal()
    total.create(A)

    for reading in (3, 10, 7, 0, 11):
        total.record([(A, reading, 1)])

    assert total.values == {A: 11}


def test_running_total_continues_after_a_restart() -> None:
    """After a restart of its source a total counts on from where it was."""
    total = RunningTotal()
    total.record([(A, 10, 1)])

    total.restart()
    total.record([(A, 0, 1)])
    total.record([(A, 4, 1)])

    assert total.values == {A: 14}
