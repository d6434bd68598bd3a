"""How many cores other processes want, on a machine that shares its cores evenly."""

import pytest

from hookline_kernels.runtime.threads.neighbours import Neighbours


def seen(others: int, *, threads: int, cores: int) -> Neighbours:
    """Looks ten times at a machine where all threads want a core all the time."""
    neighbours = Neighbours()
    share = min(1.0, cores / (threads + others))
    for _ in range(10):
        neighbours.update(
            cores=cores,
            busy=share * (threads + others),
            own=share * threads,
            running=share * threads,
            preempted=(1 - share) * threads,
        )
    return neighbours


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("others", [0, 1, 2, 3])
def test_neighbours_are_counted_by_what_they_want(others: int, threads: int) -> None:
    """Whether they get it or not, and however many threads compute."""
    neighbours = seen(others, threads=threads, cores=2)

    assert neighbours.wanted == pytest.approx(others, abs=0.05)


def test_a_few_preemptions_are_no_neighbour() -> None:
    """Threads lose their cores for moments on every machine."""
    neighbours = Neighbours()
    neighbours.update(cores=2, busy=2.0, own=2.0, running=1.96, preempted=0.04)

    assert neighbours.wanted == 0


@pytest.mark.parametrize(
    ("others", "cores", "expected"),
    [
        (0, 2, False),
        (1, 2, True),
        (2, 2, False),  # they would share every core
        (3, 4, True),
        (4, 4, False),
        (1, 1, False),
    ],
)
def test_some_cores_are_left(others: int, cores: int, expected: bool) -> None:
    """Neighbours that want fewer cores than there are leave one."""
    neighbours = seen(others, threads=cores, cores=cores)

    assert neighbours.leave_a_core(cores) == expected
