"""Admits waiting requests to the batch, and finds their cached KV."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hookline.engine.scheduler.external_prefix import (
    NO_OFFER,
    NOTHING_BROUGHT,
    FetchStart,
    PrefixOffer,
)
from hookline.engine.scheduler.lifecycle import RequestLifecycle
from hookline.engine.scheduler.plan_builder import PlanBuilder, Share
from hookline.events import Scheduled
from hookline.finish_cause import Failed
from hookline.request import Request, RequestStatus
from hookline.stats.step_work import Obstacle
from hookline_registry.isolation import Failure, isolate

if TYPE_CHECKING:  # it is only read
    from hookline.config.scheduler import SchedulerConfig


class BatchAdmission:
    """Moves requests from the waiting queue to the batch."""

    def __init__(self, config: "SchedulerConfig", lifecycle: RequestLifecycle) -> None:
        self._config, self._lifecycle = config, lifecycle
        self._cache = lifecycle.cache
        self._external = lifecycle.extensions.external_prefix

    def admit(
        self, builder: PlanBuilder, share: Share, *, last_ended: int, now: int
    ) -> Obstacle:
        """Admits waiting requests in their order, until one does not fit.

        Requests that are not ready step aside and do not delay others.

        Args:
            builder: The plan.
            share: What the step may take.
            last_ended: Number of the last step whose result is there.
            now: Time, ns.

        Returns:
            Why it stopped.
        """
        queues, external = self._lifecycle.queues, self._external
        waiting, running = queues.waiting.requests, queues.running.requests
        limit = self._config.max_num_seqs
        while (
            waiting
            and builder.budget > 0
            and len(builder.entries) < share.requests
            and len(running) < limit
        ):
            if (request := queues.next_waiting(now)) is None:
                return Obstacle.BATCH_SLOTS if waiting else Obstacle.GATE
            if request.last_step > last_ended:
                # It was preempted, and a step in flight may bring its token.
                return Obstacle.PIPELINE
            prefix = isolate(self._cache.find_prefix, request)
            if isinstance(prefix, Failure):
                # Its tokens or its salt cannot be hashed; others are not concerned.
                self._lifecycle.finish_request(request, Failed(prefix.summary), now)
                continue
            offer = NO_OFFER if external is None else external.offer(request, prefix)
            if offer.is_async:
                num_tokens = 0
                start = self._step_aside(request, prefix, offer, now)
            else:
                missing = len(request.token_ids) - len(prefix) * self._cache.block_size
                missing -= offer.num_tokens
                if (num_tokens := chunk(missing, builder.budget, self._config)) == 0:
                    break
                start = self._allocate(request, prefix, offer, num_tokens, now)
            if start is FetchStart.NO_ROOM:
                return Obstacle.KV_BLOCKS
            if start is FetchStart.BEGUN and num_tokens:
                self._run(request, num_tokens, now)
                builder.add(request, num_tokens, ())
                builder.admitted.append(request)
        return self._limit(share) if waiting else Obstacle.NONE

    def _limit(self, share: Share) -> Obstacle:
        """Tells which limit of a step or of the batch has been reached."""
        config = self._config
        if len(self._lifecycle.queues.running.requests) >= config.max_num_seqs:
            return Obstacle.BATCH_SLOTS
        whole = config.max_num_seqs, config.tokens_per_step
        is_whole = (share.requests, share.tokens) == whole
        return Obstacle.TOKEN_BUDGET if is_whole else Obstacle.SHARE

    def _step_aside(
        self, request: Request, prefix: Sequence[int], offer: PrefixOffer, now: int
    ) -> FetchStart:
        """Holds a request aside for which an extension fetches a prefix.

        If that is refused, the request stays queued and is computed without it.
        """
        assert self._external is not None
        start = self._external.fetch(request, prefix, offer, now)
        if start is FetchStart.BEGUN:
            self._lifecycle.queues.waiting.pop(request)
            self._lifecycle.queues.held.hold(request, self._external.gate, now)
        elif start is FetchStart.NO_ROOM:
            self._external.reclaim(self._cache.shortage(request, prefix), now)
        return start

    def _allocate(
        self,
        request: Request,
        prefix: Sequence[int],
        offer: PrefixOffer,
        num_tokens: int,
        now: int,
    ) -> FetchStart:
        """Gives a request its blocks, and has those of an offer filled in the step."""
        external = self._external
        if not self._cache.allocate(request, prefix, num_tokens, offer.num_tokens):
            if external is not None:
                external.reclaim(self._cache.shortage(request, prefix), now)
            return FetchStart.NO_ROOM
        if external is None or not offer.num_tokens:
            return FetchStart.BEGUN
        has_begun = external.fetch_in_step(request, prefix, offer, now)
        return FetchStart.BEGUN if has_begun else FetchStart.REFUSED

    def _run(self, request: Request, num_tokens: int, now: int) -> None:
        """Moves the first waiting request, which has its blocks, to the batch."""
        queues = self._lifecycle.queues
        queues.waiting.pop(request)
        self._record(request, now)
        request.status = RequestStatus.RUNNING
        queues.running.add(request)
        queues.preempted.discard(request.request_id)
        computed = request.num_computed_tokens + num_tokens
        self._cache.cache_full_blocks(request, computed)

    def _record(self, request: Request, now: int) -> None:
        """Notes the admission; counts cache hits once a request, at its first one."""
        lifecycle, found = self._lifecycle, request.num_computed_tokens
        brought = NOTHING_BROUGHT
        if self._external is not None:
            brought = self._external.admitted(request)
        local = found - brought.num_tokens
        is_resumed = request.status is RequestStatus.PREEMPTED
        if request.num_cached_tokens is None:
            request.num_cached_tokens = found
            if self._cache.is_caching and request.reads_prefix_cache:
                lifecycle.ledger.count_lookup(request.num_prompt_tokens, local)
            if (fair := lifecycle.queues.fair) is not None:
                # All of it at once, or the tenant's next requests would seem free.
                fair.served_prompt(request, request.num_prompt_tokens - found)
        again = max(0, request.max_computed_tokens - found)
        waited, moved = brought.waited, brought.num_transferred
        external = brought.num_tokens - moved
        event = Scheduled(
            request.request_id, now, local, external, again, is_resumed, waited, moved
        )
        lifecycle.events.scheduled.append(event)


def chunk(missing: int, budget: int, config: "SchedulerConfig") -> int:
    """Returns how many of the missing tokens to compute now; 0 means wait."""
    if not config.enable_chunked_prefill:
        return missing if missing <= budget else 0
    if threshold := config.long_prefill_token_threshold:
        missing = min(missing, threshold)
    return min(missing, budget)
