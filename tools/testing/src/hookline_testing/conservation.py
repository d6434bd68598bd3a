"""Asserts the conservation laws of an engine, at the end of every engine test."""

import time

from hookline.llm import LLM
from hookline.stats import Residue


def assert_conserved(llm: LLM, timeout_seconds: float = 10.0) -> None:
    """Waits for a fresh state and asserts that the conservation laws hold in it.

    Requests, tokens and blocks received = finished + in flight, in the engine and in
    the front end; and with nothing in flight no block is held.
    """
    front_end = llm.front_end
    deadline = time.monotonic() + timeout_seconds
    front_end.reset_prefix_cache()
    while (output := front_end.client.receive(timeout_seconds)) is None or (
        output.cause == "step"
    ):
        assert time.monotonic() < deadline, "the engine tells no state"
    front_end.take(output)
    stats = output.stats
    assert stats.residue == Residue(), stats
    assert front_end.residue == 0
    assert stats.running == stats.waiting == 0, stats
    assert stats.kv_blocks_used == 0, stats
    assert stats.received == sum(stats.finished.values())
