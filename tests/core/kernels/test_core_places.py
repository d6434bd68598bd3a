"""Threads of a team on cores of their own."""

import os
import threading
from collections.abc import Iterator

import pytest

from hookline_kernels.cpu.core_places import CorePlaces

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="threads need two cores"
)


@pytest.fixture
def worker() -> Iterator[int]:
    """A waiting thread's id."""
    is_over = threading.Event()
    thread = threading.Thread(target=is_over.wait)
    thread.start()
    assert thread.native_id is not None
    yield thread.native_id
    is_over.set()
    thread.join()


def test_each_thread_has_a_core_of_its_own_inside(worker: int) -> None:
    """The caller may use all cores afterwards; the worker keeps its core."""
    places, allowed = CorePlaces(), os.sched_getaffinity(0)

    with places.taken((worker,)):
        own, workers = os.sched_getaffinity(0), os.sched_getaffinity(worker)
    kept = os.sched_getaffinity(worker)

    assert (len(own), len(workers)) == (1, 1)
    assert own != workers
    assert own | workers <= allowed
    assert os.sched_getaffinity(0) == allowed
    assert kept == workers


def test_without_workers_all_may_use_all_cores(worker: int) -> None:
    """Such as when the neighbour has left."""
    places, allowed = CorePlaces(), os.sched_getaffinity(0)
    with places.taken((worker,)):
        pass

    with places.taken(()):
        inside = os.sched_getaffinity(0)

    assert inside == os.sched_getaffinity(worker) == allowed


def test_more_threads_than_cores_have_no_places(worker: int) -> None:
    """Each may use all cores, and the error of nobody is raised."""
    allowed = os.sched_getaffinity(0)
    workers = (worker,) * len(allowed)

    with CorePlaces().taken(workers):
        assert os.sched_getaffinity(0) == allowed
        assert os.sched_getaffinity(worker) == allowed


def test_a_failed_job_leaves_the_caller_all_cores(worker: int) -> None:
    """Threads that it starts later inherit its cores."""
    allowed = os.sched_getaffinity(0)

    with pytest.raises(RuntimeError), CorePlaces().taken((worker,)):
        raise RuntimeError

    assert os.sched_getaffinity(0) == allowed
