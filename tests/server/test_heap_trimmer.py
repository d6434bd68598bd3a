"""Giving memory back to the system after large bodies."""

import asyncio

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
    loop, deadline = asyncio.get_running_loop(), Deadline(10)
    begun_at = list[float]()
    monkeypatch.setattr(
        loop, "run_in_executor", lambda *_: begun_at.append(loop.time())
    )
    trimmer = HeapTrimmer()

    trimmer.add(TRIM_BYTES)
    at_first = trimmer._timer
    assert at_first is not None
    # However late this is, the body comes before the first trim.
    loop.call_at(at_first.when() - 1e-4, trimmer.add, TRIM_BYTES)
    while len(begun_at) < 2:
        assert deadline.is_ahead
        await asyncio.sleep(0.01)

    assert begun_at[1] >= begun_at[0] + 0.1
    await asyncio.sleep(0.5)
    assert trimmer.num_trims == 2


async def test_small_bodies_trim_nothing() -> None:
    """Their memory is used again by the next ones."""
    trimmer = HeapTrimmer(lambda: None)

    for _ in range(TRIM_BYTES // LARGE_BYTES + 2):
        trimmer.add(LARGE_BYTES - 1)
    await asyncio.sleep(0.05)

    assert trimmer.num_trims == 0
