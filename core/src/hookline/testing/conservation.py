"""Asserts the conservation laws of an engine, at the end of every engine test."""

from hookline.clock import NANOSECONDS
from hookline.llm import LLM
from hookline.stats import Residue


def assert_conserved(llm: LLM, timeout_seconds: float = 10.0) -> None:
    """Waits for a fresh state and asserts that the conservation laws hold in it.

    Requests, tokens and blocks received = finished + in flight, in the engine and in
    the front end; and with nothing in flight no block is held.
    """
    front_end = llm.front_end
    deadline = front_end.client.clock.monotonic + timeout_seconds * NANOSECONDS
    front_end.reset_prefix_cache()
    while (output := front_end.client.receive(timeout_seconds)) is None or (
        output.cause == "step"
    ):
        assert output is None or output.at < deadline
    front_end.take(output)
    stats = output.stats
    assert stats.residue == Residue(), stats
    assert front_end.residue == 0
    assert stats.running == stats.waiting == 0, stats
    assert stats.kv_blocks_used == 0, stats
    assert stats.received == sum(stats.finished.values())
