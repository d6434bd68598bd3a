"""Decides what each step computes: continuous batching over a paged KV cache.

Every request is a number of tokens and a number of computed tokens; a step closes part
of the gap. Prefill, chunked prefill, decode, recomputation after preemption and hits
in the prefix cache are all that one rule. Requests in the batch come first (those with
one token to go before those with many), then waiting ones, under one token budget.
Drafts take what is left of it, and of the free blocks: nobody waits for them.
"""

from collections.abc import Iterable, Sequence

from hookline.config import SchedulerConfig
from hookline.events import CacheEvent, Finished, NewTokens, Preempted, Queued
from hookline.finish_cause import Failed, FinishCause
from hookline.kv_cache import KVCacheManager
from hookline.request import EngineRequest, Request, RequestStatus
from hookline.scheduler.admission import Admission, chunk
from hookline.scheduler.journal import Journal
from hookline.scheduler.ledger import Ledger
from hookline.scheduler.loads import LoadEnd
from hookline.scheduler.plan_builder import Entry, PlanBuilder
from hookline.scheduler.queue import WaitingQueue
from hookline.scheduler.stopping import stop_after
from hookline.scheduler.transfers import Transfers
from hookline.spec_decode.tree import DraftTree
from hookline.stats import BlockEviction, SchedulerStats
from hookline.step.plan import StepPlan, StepResult


class Scheduler:
    """Owns the requests of one engine, from arrival to end."""

    def __init__(
        self,
        config: SchedulerConfig,
        cache: KVCacheManager,
        *,
        max_model_len: int,
        draft_tree: DraftTree | None = None,
        transfers: Transfers | None = None,
    ) -> None:
        self._config = config
        self._transfers = transfers or Transfers(cache)
        self._cache = cache
        self._max_model_len = max_model_len
        self._draft_tree = draft_tree
        self._waiting = WaitingQueue(config.policy)
        self._running: list[Request] = []
        self._requests: dict[int, Request] = {}
        self._left_batch: list[int] = []
        self._arrivals = 0
        self._steps = 0
        self._oldest_waiting_at: int | None = None
        self._oldest_running_at: int | None = None
        self.ledger = Ledger()
        self.journal = Journal()
        self._admission = Admission(
            config,
            cache,
            self._waiting,
            self._running,
            self._transfers,
            self.ledger,
        )

    @property
    def has_requests(self) -> bool:
        return bool(self._requests)

    @property
    def has_transfers(self) -> bool:
        """Whether the worker must be asked for their ends."""
        return self._transfers.is_busy

    # -- arrival and end ---------------------------------------------------------

    def add(self, inner: EngineRequest, now: int) -> None:
        """Takes a request in; the front end has validated it.

        Raises:
            ValueError: The id is in use, or the prompt does not fit the context.
        """
        room = self._max_model_len - len(inner.prompt_token_ids)
        if inner.request_id in self._requests or room < 1 or not inner.prompt_token_ids:
            raise ValueError(
                f"request {inner.request_id} with {len(inner.prompt_token_ids)} prompt "
                f"tokens cannot be taken in"
            )
        limit = inner.params.max_tokens
        self._arrivals += 1
        request = Request(
            inner,
            sequence=self._arrivals,
            queued_at=now,
            max_tokens=room if limit is None else min(limit, room),
        )
        self._requests[request.request_id] = request
        self._waiting.push(request)
        self.ledger.received += 1
        queued = Queued(request.request_id, now, request.num_prompt_tokens)
        self.journal.queued.append(queued)

    def finish(self, request_ids: Sequence[int], cause: FinishCause, now: int) -> None:
        """Ends requests from outside a step; unknown ids have ended already."""
        for request_id in request_ids:
            if (request := self._requests.get(request_id)) is None:
                continue
            self._end(request, cause, now)

    def _end(self, request: Request, cause: FinishCause, now: int) -> None:
        if request.status is RequestStatus.RUNNING:
            self._running.remove(request)
            self._left_batch.append(request.request_id)
        elif request.status is not RequestStatus.WAITING_FOR_REMOTE_KV:
            self._waiting.remove(request.request_id)
        told = self._transfers.finish(request, now)
        self._cache.free(request)
        request.status = RequestStatus.FINISHED
        del self._requests[request.request_id]
        outputs = request.num_output_tokens
        self.ledger.end(cause.reason, outputs)
        self.journal.finished.append(
            Finished(request.request_id, now, cause, outputs, told)
        )

    # -- planning a step ---------------------------------------------------------

    def schedule(self, now: int) -> StepPlan | None:
        """Plans the next step and gives its requests their blocks.

        Earlier steps may still be under way: their tokens count as there, unknown.

        Returns:
            The plan, which must be executed; None if there is nothing to compute now.
        """
        self._take_loads(self._transfers.expire(now), now)
        builder = PlanBuilder(self._config.max_num_batched_tokens)
        preempted = self._schedule_running(builder, now)
        for entry in builder.entries:
            self._cache.cache_full_blocks(
                entry.request, entry.request.num_computed_tokens + entry.num_tokens
            )
        if not preempted:
            self._admission.admit(builder, self.journal, now)
        self._add_drafts(builder)
        if not builder.entries:
            return None
        self._steps += 1
        transfers = self._transfers.orders()
        plan = builder.plan(self._steps, self._left_batch, transfers)
        self._left_batch = []
        for entry in builder.entries:
            self._count_computed(entry)
        return plan

    def plan_transfers(self) -> StepPlan:
        """A plan that computes nothing: for when there is nothing else to plan."""
        return StepPlan(step=self._steps, transfers=self._transfers.orders())

    def _schedule_running(self, builder: PlanBuilder, now: int) -> bool:
        """Gives each running request its tokens; whether any was preempted."""
        preempted = False
        decodes_first = sorted(self._running, key=lambda request: request.is_prefilling)
        for request in decodes_first:
            if request.status is not RequestStatus.RUNNING or request.is_complete:
                continue
            num_tokens = chunk(request.num_missing_tokens, builder.budget, self._config)
            if num_tokens == 0:
                continue
            blocks = self._cache.allocate_more(request, num_tokens)
            while blocks is None:
                preempted = True
                victim = max(self._running, key=self._waiting.rank)
                builder.drop(victim)
                self._preempt(victim, now)
                if victim is request:
                    break
                blocks = self._cache.allocate_more(request, num_tokens)
            if blocks is not None:
                builder.add(request, num_tokens, blocks)
        return preempted

    def _preempt(self, victim: Request, now: int, num_failed: int = 0) -> None:
        self.journal.preempted.append(
            Preempted(victim.request_id, now, victim.num_computed_tokens, num_failed)
        )
        self._cache.free(victim)
        victim.external_tokens = range(0)
        self._running.remove(victim)
        self._left_batch.append(victim.request_id)
        victim.status = RequestStatus.PREEMPTED
        victim.draft_token_ids = []
        if not victim.num_pending_tokens:
            victim.prompt_logprobs = []
        self.ledger.preemptions += 1
        self._waiting.push(victim)

    def _add_drafts(self, builder: PlanBuilder) -> None:
        """Has as many drafts verified as fit beside everything else."""
        for entry in builder.entries:
            request = entry.request
            if not request.draft_token_ids:
                continue
            drafts, request.draft_token_ids = request.draft_token_ids, []
            room = min(
                builder.budget,
                self._most_drafts(request),
                self._cache.room_for(request) - 1,
            )
            if (count := min(len(drafts), room)) > 0:
                blocks = self._cache.allocate_more(request, 1 + count)
                assert blocks is not None
                builder.add_drafts(entry, drafts[:count], blocks)

    def _most_drafts(self, request: Request) -> int:
        """That may be of use; the step brings one token more than it accepts."""
        left = request.max_tokens - request.num_output_tokens - 1
        if self._draft_tree is None:
            return left
        places = self._max_model_len - request.num_tokens
        return min(self._draft_tree.num_within(left), places)

    def _count_computed(self, entry: Entry) -> None:
        """Drafts count as computed work, and as the request's once accepted."""
        request = entry.request
        request.num_drafts = len(entry.drafts)
        before = request.num_computed_tokens
        after = before + entry.num_tokens - request.num_drafts
        again = min(after, request.max_computed_tokens) - before
        self.ledger.computed_tokens += entry.num_tokens
        self.ledger.recomputed_tokens += max(0, again)
        request.num_computed_tokens = after
        request.max_computed_tokens = max(after, request.max_computed_tokens)
        if not request.num_missing_tokens:
            request.num_pending_tokens += 1  # the step samples the one that follows

    # -- taking in a step's result -----------------------------------------------

    def update(self, result: StepResult, now: int) -> None:
        """Appends the new tokens and ends the requests that they end.

        What comes for a request that has ended since its step was planned is dropped.
        """
        self._take_loads(self._transfers.settle(result.transfers, now), now)
        for request_id, detail in result.failed.items():
            self.finish([request_id], Failed(detail), now)
        self._keep_prompt_logprobs(result)
        for request_id, token_ids in result.tokens.items():
            request = self._requests.get(request_id)
            if request is None or request.num_doomed_results:
                self.ledger.discarded_tokens += len(token_ids)
                if request is not None:
                    request.num_doomed_results -= 1
                continue
            is_first = request.num_output_tokens == 0
            request.num_pending_tokens -= 1
            kept, cause = stop_after(request, token_ids)
            if request.status is RequestStatus.RUNNING:
                request.token_ids += kept
            else:  # preempted since; it is recomputed with this token
                self._waiting.lengthen(request, kept)
            self.ledger.sampled_tokens += len(kept)
            logprobs = result.logprobs.get(request_id)
            num_drafts, num_accepted = request.num_drafts, 0
            if num_drafts:
                num_accepted = self._accept(request, len(token_ids) - 1, len(kept))
            self.journal.new_tokens.append(
                NewTokens(
                    request_id,
                    now,
                    kept,
                    None if logprobs is None else logprobs[: len(kept)],
                    request.prompt_logprobs if is_first else None,
                    num_drafts,
                    num_accepted,
                )
            )
            if cause is not None:
                self._end(request, cause, now)
        for request_id, draft_token_ids in result.drafts.items():
            request = self._requests.get(request_id)
            if request is not None and request.status is RequestStatus.RUNNING:
                request.draft_token_ids = draft_token_ids

    def _take_loads(self, ends: Iterable[LoadEnd], now: int) -> None:
        """Has requests go on whose loads have ended, one way or the other."""
        for end in ends:
            request, waits = end.request, end.request.status
            if end.reason:
                request.num_doomed_results += request.num_pending_tokens
                request.num_pending_tokens = 0
            if end.reason and self._transfers.failure_ends:
                failed = Failed(f"KV load failed: {end.reason}")
                self._end(request, failed, now)
                continue
            self._transfers.ledger.recomputed_tokens += (
                end.lost_tokens + end.spoilt_tokens
            )
            if waits is RequestStatus.WAITING_FOR_REMOTE_KV:
                is_new = request.num_cached_tokens is None
                request.status = (
                    RequestStatus.WAITING if is_new else RequestStatus.PREEMPTED
                )
                assert request.remote_kv is not None
                request.remote_kv = (request.remote_kv[0], now)
                self._waiting.push(request)
            elif end.reason:
                if waits is RequestStatus.RUNNING:
                    self._preempt(request, now, end.lost_tokens)
                request.unproven = None

    def _accept(self, request: Request, num_accepted: int, num_kept: int) -> int:
        """Takes the accepted drafts into the books and gives back what others took.

        Returns:
            How many of them the request keeps.
        """
        request.num_computed_tokens += num_kept - 1
        request.max_computed_tokens = max(
            request.num_computed_tokens, request.max_computed_tokens
        )
        self._cache.trim(request)
        num_given = min(num_accepted, num_kept)
        self.journal.verified.add(request.num_drafts, num_given)
        request.num_drafts = 0
        return num_given

    def _keep_prompt_logprobs(self, result: StepResult) -> None:
        """Of prompts whose first token is still to come, or comes with them.

        A prompt that was preempted before its end is computed, and told, anew.
        """
        for request_id, entries in result.prompt_logprobs.items():
            request = self._requests.get(request_id)
            if request is None or request.num_output_tokens:
                continue
            if request.status is RequestStatus.RUNNING or request_id in result.tokens:
                request.prompt_logprobs += entries

    # -- telling -----------------------------------------------------------------

    def stats(self) -> SchedulerStats:
        """The state now, and the totals since the start."""
        pool = self._cache.pool
        ledger, waiting = self.ledger, len(self._transfers.waiting)
        is_waiting = bool(self._waiting) or waiting > 0
        return SchedulerStats(
            running=len(self._running),
            waiting=len(self._waiting),
            kv_blocks=pool.num_blocks,
            kv_blocks_used=pool.num_used,
            kv_blocks_cached=pool.num_reusable,
            prefix_cache=ledger.prefix_cache,
            received=ledger.received,
            finished=dict(ledger.finished),
            preemptions=ledger.preemptions,
            computed_tokens=ledger.computed_tokens,
            recomputed_tokens=ledger.recomputed_tokens,
            waiting_for_remote_kv=waiting,
            oldest_waiting_at=self._oldest_waiting_at if is_waiting else None,
            oldest_running_at=self._oldest_running_at if self._running else None,
            residue=ledger.residue,
            waiting_tokens=self._waiting.num_tokens,
            discarded_tokens=ledger.discarded_tokens,
            external_cache=self._transfers.ledger.external_cache,
            transfers=self._transfers.stats(),
        )

    def audit(self) -> None:
        """Looks at every live request: conservation laws and ages."""
        transferred = self._transfers.held()
        self.ledger.audit(self._requests.values(), self._cache.pool, transferred)
        self._oldest_waiting_at = _oldest((*self._waiting, *self._transfers.waiting))
        self._oldest_running_at = _oldest(self._running)

    def drain_evictions(self) -> list[BlockEviction]:
        """Evictions of measured blocks since the last call."""
        return self._cache.drain_evictions()

    @property
    def has_news(self) -> bool:
        """Whether the next output has events, cache changes or evictions to carry."""
        return not self.journal.is_empty or self._cache.has_news

    def take_cache_events(self) -> list[CacheEvent]:
        """Returns changes of the prefix cache since the last call."""
        return self._cache.take_events()

    def reset_prefix_cache(self) -> None:
        self._cache.reset_prefix_cache()

    def close(self) -> None:
        self._transfers.close()


def _oldest(requests: Iterable[Request]) -> int | None:
    return min((request.queued_at for request in requests), default=None)
