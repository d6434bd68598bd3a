"""Requests that the worker reports as failed."""

import pytest

from hookline.clock import VirtualClock
from hookline.config import CacheConfig, SchedulerConfig
from hookline.engine.kv_cache.manager import KVCacheManager
from hookline.engine.scheduler.scheduler import Scheduler, SchedulerParts
from hookline.finish_cause import Failed, FinishCause
from hookline.stats.scheduler_stats import Residue
from hookline.step import StepResult
from hookline_testing.simulation import engine_request


@pytest.mark.parametrize("lead", [0, 1])
def test_a_failed_request_ends_with_its_cause(lead: int) -> None:
    """Its tokens of this step and of one in flight are dropped; others keep theirs."""
    cache = KVCacheManager(CacheConfig(block_size=4), 16, VirtualClock())
    scheduler = Scheduler(
        SchedulerConfig(), SchedulerParts(cache=cache), max_model_len=32
    )
    for request_id in (1, 2):
        scheduler.add(engine_request(request_id, [5, 6, 7], 4), 0)
    tokens = {1: [9], 2: [9]}

    plans = [scheduler.schedule(0) for _ in range(1 + lead)]
    failed: dict[int, FinishCause] = {1: Failed("oh"), 3: Failed("gone before")}
    scheduler.update(StepResult(tokens=tokens, failed=failed), 1)
    if lead:
        scheduler.update(StepResult(tokens=tokens), 2)
    events = scheduler.take_events()
    plan = scheduler.schedule(3)
    scheduler.audit()

    assert all(plans)
    assert [(end.request_id, end.cause) for end in events.finished] == [
        (1, Failed("oh"))
    ]
    assert [event.request_id for event in events.new_tokens] == [2] * (1 + lead)
    assert plan is not None
    assert (plan.released, plan.request_ids) == ([1], [2])
    stats = scheduler.stats()
    assert stats.totals.discarded_tokens == 1 + lead
    assert (stats.totals.finished, stats.totals.residue) == ({"error": 1}, Residue())
