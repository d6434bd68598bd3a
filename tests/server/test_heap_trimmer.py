"""Giving memory back to the system after large bodies."""

import asyncio
import time

import pytest

from hookline_server import heap_trimmer
from hookline_server.heap_trimmer import LARGE_BYTES, TRIM_BYTES, HeapTrimmer
from hookline_testing.own_time import Deadline


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap_trimmer, "TRIM_SECONDS", 0.01)


async def test_the_heap_is_trimmed_once_for_several_large_bodies() -> None:
    """It is trimmed soon after enough bytes, in another thread."""
    trimmed = asyncio.Event()
    loop = asyncio.get_running_loop()
    trimmer = HeapTrimmer(lambda: loop.call_soon_threadsafe(trimmed.set))

    for _ in range(3):
        trimmer.add(TRIM_BYTES)
    await asyncio.wait_for(trimmed.wait(), 10)

    assert trimmer.num_trims == 1


async def test_the_heap_is_trimmed_again_for_the_last_body(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What comes shortly before a trim is still in use then."""
    monkeypatch.setattr(heap_trimmer, "TRIM_SECONDS", 0.2)
    deadline, times = Deadline(10), list[float]()
    trimmer = HeapTrimmer(lambda: times.append(time.monotonic()))

    trimmer.add(TRIM_BYTES)
    await asyncio.sleep(0.15)
    added = time.monotonic()
    trimmer.add(TRIM_BYTES)
    while not times or times[-1] < added + 0.1:
        assert deadline.is_ahead
        await asyncio.sleep(0.01)

    num_trims = trimmer.num_trims
    await asyncio.sleep(0.5)
    assert trimmer.num_trims == num_trims


async def test_small_bodies_trim_nothing() -> None:
    """Their memory is used again by the next ones."""
    trimmer = HeapTrimmer(lambda: None)

    for _ in range(TRIM_BYTES // LARGE_BYTES + 2):
        trimmer.add(LARGE_BYTES - 1)
    await asyncio.sleep(0.05)

    assert trimmer.num_trims == 0
