"""A scheduler's state and totals, as observers get them."""

from hookline.kv_cache import BlockPool
from hookline.scheduler.ledger import Ledger
from hookline.scheduler.request_queues import RequestQueues
from hookline.sections import Sections
from hookline.stats import SchedulerStats


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
        kv_blocks=pool.num_blocks,
        kv_blocks_used=pool.num_used,
        kv_blocks_cached=pool.num_reusable,
        prefix_cache=ledger.prefix_cache,
        received=ledger.received,
        migrated_in=ledger.migrated_in,
        finished=dict(ledger.finished),
        preemptions=ledger.preemptions,
        computed_tokens=ledger.computed_tokens,
        recomputed_tokens=ledger.recomputed_tokens,
        held=queues.held.counts(),
        oldest_waiting_at=queues.oldest_waiting_at,
        oldest_running_at=queues.oldest_running_at,
        residue=ledger.residue,
        waiting_tokens=queues.waiting.num_tokens,
        discarded_tokens=ledger.discarded_tokens,
        tenants=queues.tenants,
        preempted=len(queues.preempted),
        preempted_prompt_tokens=ledger.preempted_prompt_tokens,
        preempted_output_tokens=ledger.preempted_output_tokens,
        evicted_blocks=pool.evictions.total,
        sections=sections,
    )
