"""The engine's totals, and their audit."""

import msgspec

from hookline.clock import VirtualClock
from hookline.config import CacheConfig, SchedulerConfig
from hookline.engine.kv_cache.manager import KVCacheManager
from hookline.engine.scheduler.scheduler import Scheduler, SchedulerParts
from hookline.finish_cause import Aborted
from hookline.stats.scheduler_stats import Residue
from hookline_testing.simulation import engine_request


def test_what_another_engine_has_received_is_taken_over() -> None:
    """Also if it is refused; the books balance with it and after it."""
    cache = KVCacheManager(CacheConfig(block_size=4), 16, VirtualClock())
    scheduler = Scheduler(
        SchedulerConfig(), SchedulerParts(cache=cache), max_model_len=32
    )
    moved = msgspec.structs.replace(engine_request(1, [5, 6], 4), is_moved=True)
    unfit = msgspec.structs.replace(moved, request_id=2)
    scheduler.add(engine_request(3, [5], 4), 0)
    scheduler.add(moved, 0)
    scheduler.refuse(unfit, "it does not fit", 0)

    scheduler.audit()
    before = scheduler.stats()
    scheduler.finish([1], Aborted("gone"), 1)
    scheduler.audit()
    after = scheduler.stats()

    assert (before.totals.received, before.totals.migrated_in) == (1, 2)
    assert (after.totals.received, after.totals.migrated_in) == (1, 2)
    assert before.totals.residue == after.totals.residue == Residue()
    assert after.totals.finished == {"error": 1, "abort": 1}
