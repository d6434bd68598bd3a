"""Decides what each step computes: continuous batching over a paged KV cache.

Every request is a number of tokens and a number of computed tokens; a step closes part
of the gap. Prefill, chunked prefill, decode, recomputation after preemption and hits
in the prefix cache are all that one rule. Requests in the batch come first (those with
one token to go before those with many), then waiting ones, under one token budget.
Drafts get what is left of it and of the free blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from hookline.engine.kv_cache.manager import KVCacheManager
from hookline.engine.scheduler.admission import BatchAdmission, chunk
from hookline.engine.scheduler.extension import SchedulerExtensions
from hookline.engine.scheduler.extension_port import SchedulerPort
from hookline.engine.scheduler.lifecycle import RequestLifecycle
from hookline.engine.scheduler.plan_builder import PlanBuilder, Share, plan_drafts
from hookline.engine.scheduler.request_queues import RequestQueues
from hookline.engine.scheduler.result_update import ResultUpdate
from hookline.events import PreemptionCause, VerifiedDrafts
from hookline.finish_cause import FinishCause
from hookline.request import Request, RequestStatus
from hookline.sections import NO_SECTIONS, Sections
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.stats.step_work import Obstacle
from hookline.step import StepPlan, StepResult

if TYPE_CHECKING:  # it is only read
    from hookline.config.scheduler import SchedulerConfig


@dataclass(frozen=True, slots=True)
class SchedulerParts:
    """What an engine's configuration chooses for its scheduler.

    Attributes:
        cache: Allocates KV blocks.
        extensions: Sides of extensions, and gates.
    """

    cache: KVCacheManager
    extensions: SchedulerExtensions = field(default_factory=SchedulerExtensions)


class Scheduler:
    """Plans the steps of one engine and takes in their results.

    Attributes:
        requests: Live requests by id; for reading.
        add: Queues a request; see `RequestLifecycle.add`.
        refuse: Ends a request that `add` has refused; see `RequestLifecycle.refuse`.
        expire: Ends requests whose deadlines have passed; each step does so, too.
        take_events: Returns the events since the last call.
        watch_gates: Has requests told that wait at gates; see `HeldRequests.watch`.
        is_held: While True, no request is admitted.
        obstacle: Why the last try to plan a step admitted no more requests.
        cache, extensions, lifecycle: Its parts; for reading.
        steps, last_ended: Number of the last step planned, and of the last one ended.
    """

    def __init__(
        self, config: "SchedulerConfig", parts: SchedulerParts, *, max_model_len: int
    ) -> None:
        """Creates a scheduler without requests.

        Args:
            config: How requests share a step.
            parts: The KV cache and extensions.
            max_model_len: Maximum number of tokens per request.
        """
        self._config = config
        cache = self._cache = self.cache = parts.cache
        extensions = self._extensions = self.extensions = parts.extensions
        self._queues = RequestQueues(config, extensions.gates, extensions.tenants)
        lifecycle = self._lifecycle = self.lifecycle = RequestLifecycle(
            self._queues, cache, extensions, max_model_len=max_model_len
        )
        self.requests, self.add = lifecycle.requests, lifecycle.add
        self.refuse, self.expire = lifecycle.refuse, lifecycle.expire
        self.take_events = lifecycle.take_events
        self._batches = extensions.batches
        limit, budget = config.max_num_seqs, config.tokens_per_step
        self._whole = Share(limit, limit, budget)
        self._max_model_len = max_model_len
        self._update = ResultUpdate(lifecycle)
        for name, side in extensions.sides.items():
            side.start(SchedulerPort(name, self._update, lifecycle))
        self._admission = BatchAdmission(config, lifecycle)
        self.steps = self.last_ended = 0
        self.is_held, self.obstacle = False, Obstacle.NONE
        self.watch_gates = self._queues.held.watch

    # -- requests ----------------------------------------------------------------

    @property
    def needs_poll(self) -> bool:
        """Whether the worker has to be polled for what extensions do there."""
        return any(is_busy() for is_busy in self._extensions.busy)

    def finish(self, request_ids: Sequence[int], cause: FinishCause, now: int) -> None:
        """Ends requests from outside a step; unknown ids have ended already."""
        for request_id in request_ids:
            if (request := self.requests.get(request_id)) is not None:
                self._lifecycle.finish_request(request, cause, now)

    def preempt_all(self, now: int, cause: PreemptionCause) -> None:
        """Preempts all running requests, whose keys and values are to be dropped."""
        for request in list(self._queues.running.requests):
            self._lifecycle.preempt(request, now, cause)

    # -- steps -------------------------------------------------------------------

    def schedule(self, now: int) -> StepPlan | None:
        """Plans the next step and gives its requests their blocks.

        Tokens of steps in flight count as there, though they are not known yet.

        Returns:
            The plan, which must be executed; None if there is nothing to compute now.
        """
        self._lifecycle.expire(now)
        for planning in self._extensions.planning:
            planning(now)
        is_polled = bool(self._queues.held.counts)
        for gate in self._extensions.gates:
            is_polled |= gate.is_pending
        if is_polled:
            self._lifecycle.resume_ready(now)
        queues, batches = self._queues, self._batches
        share = self._whole if batches is None else batches.share(queues)
        builder = PlanBuilder(share.tokens)
        has_preempted = bool(queues.running.requests) and self._schedule_running(
            builder, share, now
        )
        for entry in builder.entries:
            computed = entry.request.num_computed_tokens + entry.num_tokens
            self._cache.cache_full_blocks(entry.request, computed)
        if has_preempted:
            obstacle = Obstacle.KV_BLOCKS
        elif queues.waiting.requests and self.is_held:
            obstacle = Obstacle.SLEEP
        elif queues.waiting.requests:
            obstacle = self._admission.admit(
                builder, share, last_ended=self.last_ended, now=now
            )
        else:
            obstacle = Obstacle.NONE
        self.obstacle = obstacle or (Obstacle.GATE if queues.held.counts else obstacle)
        builder.budget += self._whole.tokens - share.tokens
        if drafts := self._lifecycle.drafts:
            plan_drafts(drafts, builder, self._cache, self._max_model_len)
        return self._plan(builder) if builder.entries else None

    def _plan(self, builder: PlanBuilder) -> StepPlan:
        """Returns the plan, and counts its tokens as computed."""
        queues = self._queues
        self.steps += 1
        released, queues.running.released = queues.running.released, []
        sections = NO_SECTIONS
        if self._extensions.plans:
            sections = self._extensions.planned(builder)
        plan = builder.plan(self.steps, released, sections, self.obstacle)
        for entry in builder.entries:
            self._lifecycle.planned(entry, self.steps)
        if self._batches is not None:
            self._batches.started(plan)
        return plan

    def plan_poll(self) -> StepPlan:
        """Returns a plan that computes nothing: extensions are polled."""
        sections = self._extensions.planned(PlanBuilder(0))
        return StepPlan(step=self.steps, sections=sections)

    def update(self, result: StepResult, now: int) -> tuple[Sections, VerifiedDrafts]:
        """Processes the executor's result of a step.

        Returns:
            What extensions add to the step's record, and how many drafts were accepted.
        """
        if self.last_ended < self.steps:  # polls have no number of their own
            self.last_ended += 1
        if self._batches is not None:
            self._batches.ended()
        return self._update.update(result, now)

    def _schedule_running(self, builder: PlanBuilder, share: Share, now: int) -> bool:
        """Plans each running request's tokens; returns whether any was preempted."""
        has_preempted = False
        order: Sequence[Request]
        if self._batches is None:
            order = self._queues.running.decodes_first()
        else:
            order = self._batches.order(self._queues)
        for request in order:
            if len(builder.entries) == share.running:
                break
            if request.status is not RequestStatus.RUNNING or request.is_complete:
                continue
            num_tokens = chunk(request.num_missing_tokens, builder.budget, self._config)
            if num_tokens == 0:
                continue
            blocks = self._cache.allocate_more(request, num_tokens)
            if blocks is None:
                has_preempted = True
                blocks = self._preempt_for(request, num_tokens, builder, now)
            if blocks is not None:
                builder.add(request, num_tokens, blocks)
        return has_preempted

    def _preempt_for(
        self, request: Request, num_tokens: int, builder: PlanBuilder, now: int
    ) -> list[int] | None:
        """Preempts the last in rank until a request gets its blocks, or is the last."""
        blocks: list[int] | None = None
        while blocks is None:
            victim = max(self._queues.running.requests, key=self._queues.waiting.rank)
            builder.drop(victim)
            beneficiary = None if victim is request else request
            self._lifecycle.preempt(
                victim, now, PreemptionCause.NO_FREE_BLOCKS, beneficiary=beneficiary
            )
            if beneficiary is None:
                return None
            blocks = self._cache.allocate_more(request, num_tokens)
        return blocks

    # -- state and events --------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether the next output has events, cache changes or news to carry."""
        has_events = self._lifecycle.events.have_requests
        return has_events or self._cache.has_news or bool(self._extensions.news)

    def take_news(self) -> Sections:
        """Returns the sections that extensions add to the next output."""
        extensions = self._extensions
        if not (extensions.news or extensions.telling):
            return NO_SECTIONS
        return extensions.take_news()

    def stats(self) -> SchedulerStats:
        """Returns the state now, and totals since the start."""
        extensions, queues, pool = self._extensions, self._queues, self._cache.pool
        return SchedulerStats(
            running=len(queues.running.requests),
            waiting=len(queues.waiting.requests),
            held=queues.held.counts,
            waiting_tokens=queues.waiting.num_tokens,
            preempted=len(queues.preempted),
            oldest_waiting_at=queues.oldest_waiting_at,
            oldest_running_at=queues.running.oldest_queued_at,
            kv_blocks=pool.num_blocks,
            kv_blocks_used=pool.num_used,
            kv_blocks_cached=pool.num_reusable,
            evicted_blocks=pool.evictions.total,
            totals=self._lifecycle.ledger.totals(),
            tenants=queues.tenants,
            sections=extensions.statistics()
            if extensions.asked
            else extensions.reported,
        )

    def audit(self) -> None:
        """Checks conservation laws over every live request, and looks at tenants."""
        lifecycle = self._lifecycle
        held_blocks = chain.from_iterable(held() for held in self._extensions.holding)
        requests = self.requests.values()
        lifecycle.ledger.audit(requests, self._cache.pool, held_blocks)
        self._queues.audit()

    def reset_prefix_cache(self) -> None:
        """Drops every reusable prefix; running requests keep their blocks."""
        self._cache.pool.reset()

    def close(self) -> None:
        self._queues.held.close()
        self._extensions.close()
