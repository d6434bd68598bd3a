"""Admits waiting requests to the batch, and finds their cached KV."""

from collections.abc import Sequence

from hookline.config.scheduler import SchedulerConfig
from hookline.events import Scheduled
from hookline.finish_cause import Failed
from hookline.kv_cache import KVCacheManager
from hookline.request import Request, RequestStatus
from hookline.scheduler.lifecycle import RequestLifecycle
from hookline.scheduler.loads import LoadStart, Offer
from hookline.scheduler.pipeline import Pipeline, Share
from hookline.scheduler.plan_builder import PlanBuilder
from hookline.scheduler.request_queues import RequestQueues
from hookline.scheduler.transfers import Transfers
from hookline_registry import Failure, isolate


class Admission:
    """Moves requests from the waiting queue to the batch."""

    def __init__(
        self,
        config: SchedulerConfig,
        cache: KVCacheManager,
        transfers: Transfers,
        pipeline: Pipeline,
    ) -> None:
        self._config = config
        self._cache = cache
        self._transfers = transfers
        self._pipeline = pipeline

    def admit(
        self, lifecycle: RequestLifecycle, builder: PlanBuilder, share: Share, now: int
    ) -> None:
        """Admits waiting requests in their order, until one does not fit.

        Requests that are not ready step aside and do not delay others.
        """
        queues = lifecycle.queues
        while self._has_room(queues, builder, share):
            if (request := queues.next_waiting(now)) is None:
                return
            if self._pipeline.has(request):
                return  # it was preempted, and a step in flight may bring its token
            prefix = isolate(self._cache.find_prefix, request)
            if isinstance(prefix, Failure):
                # Its tokens or its salt cannot be hashed; others are not concerned.
                lifecycle.end(request, Failed(prefix.summary), now)
                continue
            offer = self._transfers.offer(request, prefix)
            if offer.is_async:
                if not self._step_aside(queues, request, prefix, offer, now):
                    return
                continue
            external = offer.num_tokens
            missing = request.num_tokens - len(prefix) * self._cache.block_size
            num_tokens = chunk(missing - external, builder.budget, self._config)
            if num_tokens == 0:
                return
            if not self._cache.allocate(request, prefix, num_tokens, external):
                self._transfers.reclaim(self._cache.shortage(request, prefix), now)
                return
            if external and not self._transfers.load_in_step(
                request, prefix, offer, now
            ):
                continue
            self._run(lifecycle, request, num_tokens, now)
            builder.admit(request, num_tokens)

    def _has_room(
        self, queues: RequestQueues, builder: PlanBuilder, share: Share
    ) -> bool:
        """Whether the batch may get another request."""
        return (
            builder.budget > 0
            and len(builder.entries) < share.requests
            and len(queues.running) < self._config.max_num_seqs
        )

    def _step_aside(
        self,
        queues: RequestQueues,
        request: Request,
        prefix: Sequence[int],
        offer: Offer,
        now: int,
    ) -> bool:
        """Begins a load that the request awaits; False if no blocks are free for it.

        If the connector refuses, the request stays queued and is computed without it.
        """
        start = self._transfers.wait_for(request, prefix, offer, now)
        if start is LoadStart.BEGUN:
            queues.waiting.pop(request)
            queues.held.hold(request, self._transfers.gate, now)
        if start is LoadStart.NO_ROOM:
            self._transfers.reclaim(self._cache.shortage(request, prefix), now)
            return False
        return True

    def _run(
        self, lifecycle: RequestLifecycle, request: Request, num_tokens: int, now: int
    ) -> None:
        """Moves the first waiting request, which has its blocks, to the batch."""
        lifecycle.queues.waiting.pop(request)
        self._record(lifecycle, request, now)
        request.status = RequestStatus.RUNNING
        lifecycle.queues.running.add(request)
        lifecycle.queues.preempted.discard(request.request_id)
        computed = request.num_computed_tokens + num_tokens
        self._cache.cache_full_blocks(request, computed)

    def _record(self, lifecycle: RequestLifecycle, request: Request, now: int) -> None:
        """Notes the admission; counts cache hits once a request, at its first one."""
        found = request.num_computed_tokens
        external = self._transfers.admitted(request)
        local = found - external
        is_resumed = request.status is RequestStatus.PREEMPTED
        if request.num_cached_tokens is None:
            request.num_cached_tokens = found
            if self._cache.uses_prefix_cache(request):
                lifecycle.ledger.count_lookup(request.num_prompt_tokens, local)
                self._transfers.count_lookup(request, local, external)
            if (fair := lifecycle.queues.fair) is not None:
                # All of it at once, or the tenant's next requests would seem free.
                fair.served_prompt(request, request.num_prompt_tokens - found)
        lifecycle.events.scheduled.append(
            Scheduled(
                request.request_id,
                now,
                local,
                external,
                max(0, request.max_computed_tokens - found),
                is_resumed,
                request.transfer.waited,
            )
        )
        request.transfer.waited = None


def chunk(missing: int, budget: int, config: SchedulerConfig) -> int:
    """Returns how many of the missing tokens to compute now; 0 means wait."""
    if not config.enable_chunked_prefill:
        return missing if missing <= budget else 0
    if (threshold := config.long_prefill_token_threshold) is not None:
        missing = min(missing, threshold)
    return min(missing, budget)
