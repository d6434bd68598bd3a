"""Asserts an engine's conservation laws, at the end of engine tests."""

import time

from hookline.llm import LLM
from hookline.stats import Residue


def assert_conserved(llm: LLM, timeout_seconds: float = 10.0) -> None:
    """Waits for a fresh state and asserts that it satisfies the conservation laws.

    Received = finished + in flight, for requests, tokens and blocks, in the engine and
    in the front end. With nothing in flight no block is held.
    """
    front_end = llm.front_end
    deadline = time.monotonic() + timeout_seconds
    front_end.reset_prefix_cache()
    while (output := front_end.client.receive(timeout_seconds)) is None or (
        output.cause == "step"
    ):
        assert time.monotonic() < deadline, "the engine reports no state"
    front_end.take(output)
    stats = output.stats
    assert stats.residue == Residue(), stats
    assert front_end.residue == 0
    assert stats.running == stats.waiting == 0, stats
    assert stats.kv_blocks_used == 0, stats
    assert stats.received == sum(stats.finished.values())
