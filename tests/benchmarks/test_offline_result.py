"""Metrics of offline work."""

import pytest
from contention import Neighbours
from offline_result import Generation, beside_result, gap_result, result_of


def generation(seconds: float, gaps: list[float], num_tokens: int = 100) -> Generation:
    times = [5.0]
    for gap in gaps:
        times.append(times[-1] + gap)
    return Generation(num_tokens, times, seconds)


def test_the_median_iteration_counts() -> None:
    """One slow iteration changes neither throughput nor time."""
    done = [generation(seconds, []) for seconds in (2.0, 9.0, 1.0)]

    found = result_of(done, prompt_tokens=60)

    assert found == {
        "output tok/s": 50.0,
        "total tok/s": 80.0,
        "ms": 2000.0,
        "processor s": 0.0,
    }


def test_processor_time_is_that_of_all_processes() -> None:
    """Unless an engine's other processes do not tell theirs."""
    done = [
        Generation(1, [], 1.0, own_seconds=seconds, elsewhere_seconds=2.0)
        for seconds in (0.5, 4.0, 1.0)
    ]
    apart = Generation(1, [], 1.0, own_seconds=1.0, elsewhere_seconds=None)

    assert result_of(done, prompt_tokens=1)["processor s"] == 3.0
    assert "processor s" not in result_of([apart], prompt_tokens=1)


def test_gaps_of_all_iterations_count() -> None:
    """The 99th percentile and the longest step are those of all iterations."""
    fast = generation(1.0, [0.01] * 98)
    slow = generation(1.0, [0.02, 0.05])

    found = gap_result([fast, slow])

    assert found["p99 ITL ms"] == pytest.approx(50.0)
    assert found["longest ÷ median step"] == pytest.approx(5.0)


def test_an_engine_without_step_times_has_no_gaps() -> None:
    """Where an engine does not tell its steps, metrics of steps are absent."""
    assert gap_result([Generation(100, [], 1.0)]) == {}


def test_contention_is_told_in_terms_of_quiet() -> None:
    """Each kind of neighbours is compared with the same engine's quiet work."""
    beside = {
        Neighbours.QUIET: [generation(1.0, [0.01] * 10), generation(1.0, [0.01] * 10)],
        Neighbours.ONE: [generation(2.0, [0.03] * 10)],
        Neighbours.QUOTA_50: [generation(5.0, [0.02] * 10)],
    }

    found = beside_result(beside, cores=2)

    assert found["quiet: output tok/s"] == 100.0
    assert found["one: output tok/s"] == 50.0
    assert found["one: of quiet"] == 0.5
    assert found["one: p99 ÷ quiet"] == pytest.approx(3.0)
    assert found["quota-50: of share"] == pytest.approx(0.2 / 0.25)
    assert "one: of share" not in found
    assert "quiet: of quiet" not in found
