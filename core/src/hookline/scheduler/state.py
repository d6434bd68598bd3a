"""A scheduler's state and totals, as observers get them."""

from hookline.kv_cache import BlockPool
from hookline.request import RequestStatus
from hookline.scheduler.ledger import Ledger
from hookline.scheduler.request_queues import RequestQueues
from hookline.scheduler.transfers import Transfers
from hookline.sections import Sections
from hookline.stats.scheduler_stats import SchedulerStats


def stats_of(
    queues: RequestQueues,
    pool: BlockPool,
    ledger: Ledger,
    transfers: Transfers,
    sections: Sections,
) -> SchedulerStats:
    """Returns the state now, and totals since the start."""
    held = queues.held
    return SchedulerStats(
        running=len(queues.running),
        waiting=len(queues.waiting),
        waiting_for_grammar=held.count(RequestStatus.WAITING_FOR_GRAMMAR),
        waiting_for_remote_kv=held.count(RequestStatus.WAITING_FOR_REMOTE_KV),
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
        external_cache=transfers.ledger.external_cache,
        transfers=transfers.stats(),
    )
