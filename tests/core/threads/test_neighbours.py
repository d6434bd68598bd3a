"""How many cores other processes want, on a machine that shares its cores evenly."""

import pytest

from hookline.worker.threads.neighbours import Neighbours


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
        (0, 2, 2),
        (1, 2, 4 / 3),  # which leaves the neighbour a core most of the time
        (2, 2, 2),  # all compete: not even one thread could have a core for itself
        (1, 4, 16 / 5),
        (2, 4, 16 / 6),
        (3, 4, 4),
        (0, 1, 1),
        (1, 1, 1),
        (2, 64, 64 * 64 / 66),
    ],
)
def test_steps_use_an_even_share(others: int, cores: int, expected: float) -> None:
    """It is kept to where that spares threads preemptions."""
    neighbours = seen(others, threads=cores, cores=cores)

    assert neighbours.leave(cores, cores) == pytest.approx(expected, abs=0.1)


def test_fewer_threads_than_cores_leave_room() -> None:
    """A small model on one thread competes with nobody on two cores."""
    assert seen(1, threads=1, cores=2).leave(2, 1) == 1
