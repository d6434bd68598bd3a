"""The scheduler under a day's traffic, on a clock that takes no time."""

import random

import pytest

from hookline.clock import VirtualClock
from hookline.config import CacheConfig, SchedulerConfig
from hookline.engine.engine_core import EngineCore
from hookline.finish_cause import Aborted
from hookline.stats.scheduler_stats import Residue
from hookline_simulated.config import SimulationConfig
from hookline_testing.simulation import engine_request, simulated_core

NUM_REQUESTS = 10_000


def drive(core: EngineCore, clock: VirtualClock, seed: int) -> None:
    """Requests with some shared prefixes arrive at random; one in 20 is aborted."""
    source = random.Random(seed)  # noqa: S311 - no secret
    arrivals = 0
    next_arrival = 0
    while arrivals < NUM_REQUESTS or core.has_work:
        while arrivals < NUM_REQUESTS and next_arrival <= clock.now():
            arrivals += 1
            prefix = [source.randrange(8)] * source.choice([0, 64])
            prompt = [*prefix, *source.choices(range(900), k=source.randint(1, 120))]
            core.add(engine_request(arrivals, prompt, source.randint(1, 32)))
            if source.random() < 0.05:
                victim = source.randint(max(1, arrivals - 100), arrivals)
                core.finish([victim], Aborted("the test"))
            next_arrival += round(source.expovariate(1 / 2_500_000))
        if core.has_work:
            core.step()
        else:
            clock.sleep((next_arrival - clock.now()) / 1e9)


@pytest.mark.slow
def test_ten_thousand_requests_run_to_the_end() -> None:
    """Everyone finishes, the books balance, and all blocks are free again."""
    clock = VirtualClock()
    core = simulated_core(
        clock=clock,
        cache=CacheConfig(num_kv_blocks=300),
        scheduler=SchedulerConfig(max_num_seqs=128, max_num_batched_tokens=1024),
        simulation=SimulationConfig(),
        max_model_len=256,
    )

    drive(core, clock, seed=7)
    stats = core.report("check").stats

    assert stats.totals.residue == Residue()
    assert stats.totals.received == sum(stats.totals.finished.values()) == NUM_REQUESTS
    assert stats.totals.finished["length"] > 9_000
    assert stats.totals.finished["abort"] > 100
    assert (stats.running, stats.waiting, stats.kv_blocks_used) == (0, 0, 0)
    assert stats.totals.preemptions > 0
    assert stats.totals.prefix_cache.hit_tokens > 0
