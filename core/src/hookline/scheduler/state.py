"""A scheduler's state and totals, as observers get them."""

from hookline.kv_cache import BlockPool
from hookline.scheduler.ledger import Ledger
from hookline.scheduler.request_queues import RequestQueues
from hookline.sections import Sections
from hookline.stats.scheduler_stats import SchedulerStats


def stats_of(
    queues: RequestQueues,
    pool: BlockPool,
    ledger: Ledger,
    sections: Sections,
) -> SchedulerStats:
    """Returns the state now, and totals since the start."""
    return SchedulerStats(
        running=len(queues.running),
        waiting=len(queues.waiting),
        held=queues.held.counts,
        waiting_tokens=queues.waiting.num_tokens,
        preempted=len(queues.preempted),
        oldest_waiting_at=queues.oldest_waiting_at,
        oldest_running_at=queues.oldest_running_at,
        kv_blocks=pool.num_blocks,
        kv_blocks_used=pool.num_used,
        kv_blocks_cached=pool.num_reusable,
        evicted_blocks=pool.evictions.total,
        totals=ledger.totals(),
        tenants=queues.tenants,
        sections=sections,
    )
