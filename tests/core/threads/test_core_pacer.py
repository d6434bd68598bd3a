"""Steps whose numbers of threads add up to a number of cores."""

import pytest

from hookline_kernels.runtime.threads.core_pacer import CorePacer

MS = 1_000_000


def run(target: float, *, steps: int = 200, beside: float = 0.0) -> list[int]:
    """Returns the thread numbers of steps of 10 ms, the process's only work.

    `beside` is the number of cores that other threads of the process keep busy.
    """
    pacer, numbers, used = CorePacer(), [], 0
    for _ in range(steps):
        threads = pacer.threads(target, 10 * MS, used)
        used = int((threads + beside) * 10 * MS)
        numbers.append(threads)
    return numbers


@pytest.mark.parametrize("target", [1.2, 1.5, 1.97, 2.0, 3.4])
def test_threads_add_up_to_the_target(target: float) -> None:
    """Of 1.5 cores, about half of all steps get two threads."""
    numbers = run(target)

    assert set(numbers) <= {int(target), int(target) + 1}
    assert sum(numbers) / len(numbers) == pytest.approx(target, abs=0.05)


def test_no_period_gets_much_more() -> None:
    """Ten steps in a row are a quota's period, wherever it begins."""
    numbers = run(1.5)

    periods = [sum(numbers[at : at + 10]) for at in range(len(numbers) - 10)]
    assert max(periods) <= 16


def test_other_threads_of_the_process_count() -> None:
    """Half a core of other work leaves one core for steps."""
    numbers = run(1.5, beside=0.5)

    assert sum(numbers) / len(numbers) <= 1.05


def test_there_is_at_least_one_thread() -> None:
    """A target of half a core stops no step."""
    assert set(run(0.5)) == {1}


def test_idle_time_is_not_saved_up_for_long() -> None:
    """After an hour without work a process may not exceed the target for long."""
    pacer, used, numbers = CorePacer(), 0, []
    pacer.threads(1.5, 3600 * 1000 * MS, 0)
    for _ in range(20):
        numbers.append(pacer.threads(1.5, 10 * MS, used))
        used = numbers[-1] * 10 * MS

    assert sum(numbers) <= 33
