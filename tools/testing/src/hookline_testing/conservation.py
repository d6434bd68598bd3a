"""Asserts an engine's conservation laws, at the end of engine tests."""

from hookline.engine.commands import ResetPrefixCache
from hookline.stats.scheduler_stats import Residue, SchedulerStats
from hookline_offline.llm import LLM


def assert_conserved(llm: LLM, timeout_seconds: float = 10.0) -> None:
    """Waits for a fresh state and asserts that it satisfies the conservation laws.

    Received = finished + in flight, for requests, tokens and blocks, in the engine and
    in the front end. With nothing in flight no block is held.
    """
    front_end = llm.front_end
    llm.call(ResetPrefixCache(), timeout_seconds=timeout_seconds)
    assert front_end.engines.residue == 0
    for engine in front_end.engines:
        _assert_empty(engine.stats)


def _assert_empty(stats: SchedulerStats) -> None:
    assert stats.totals.residue == Residue(), stats
    assert stats.running == stats.waiting == 0, stats
    assert stats.kv_blocks_used == 0, stats
    assert stats.totals.received + stats.totals.migrated_in == sum(
        stats.totals.finished.values()
    )
