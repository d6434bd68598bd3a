"""The sums behind the metrics."""

from hookline.metrics.accumulators import Counter, Gauge, Histogram, RunningTotal

A = ("tiny", "0")
B = ("tiny", "1")


def test_histogram_bounds_are_inclusive() -> None:
    """A value equal to a bound falls into that bound's bucket."""
    histogram = Histogram()
    histogram.create(A, (1.0, 2.0))

    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.update(A, value)

    series = histogram.values[A]
    assert series.counts == [2, 2, 1]
    assert series.sum == 7.5
    assert series.count == 5


def test_histogram_adds_in_bulk() -> None:
    """Observing a value n times at once equals observing it n times."""
    histogram = Histogram()
    histogram.create(A, (1.0, 2.0))
    histogram.create(B, (1.0, 2.0))

    histogram.update(A, 1.5, 4)
    for _ in range(4):
        histogram.update(B, 1.5)

    assert histogram.values[A].counts == histogram.values[B].counts == [0, 4, 0]
    assert histogram.values[A].sum == histogram.values[B].sum == 6.0


def test_histogram_created_again_keeps_its_counts() -> None:
    """Creating a series twice changes nothing unless its bounds differ."""
    histogram = Histogram()
    histogram.create(A, (1.0,))
    histogram.update(A, 1.0)

    histogram.create(A, (1.0,))
    kept = list(histogram.values[A].counts)
    histogram.create(A, (1.0, 2.0))

    assert kept == [1, 0]
    assert histogram.values[A].counts == [0, 0, 0]


def test_counter_adds_up() -> None:
    """A counter starts at 0 and grows by value times count."""
    counter = Counter()
    counter.create(A)

    counter.update(A, 2)
    counter.update(A, 3, 2)

    assert counter.values == {A: 8}


def test_gauge_forgets_by_prefix() -> None:
    """Forgetting an engine removes its series and no other's."""
    gauge = Gauge()
    gauge.create((*A, "x"))
    gauge.update((*A, "y"), 1)
    gauge.update((*B, "x"), 2)

    gauge.forget(A)

    assert gauge.values == {(*B, "x"): 2}


def test_running_total_survives_lost_and_stale_readings() -> None:
    """A total takes the newest reading and never goes down."""
    total = RunningTotal()
    total.create(A)

    for reading in (3, 10, 7, 0, 11):
        total.update(A, reading)

    assert total.values == {A: 11}


def test_running_total_goes_on_after_a_restart() -> None:
    """After a restart of its source a total counts on from where it was."""
    total = RunningTotal()
    total.update(A, 10)
    total.update(B, 5)

    total.restart(A)
    total.update(A, 0)
    total.update(A, 4)
    total.update(B, 6)

    assert total.values == {A: 14, B: 6}
