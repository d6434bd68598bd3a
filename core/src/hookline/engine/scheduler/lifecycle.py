"""A request's transitions, and the totals of an engine that they add up to."""

import logging
from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import astuple

from hookline.clock import NANOSECONDS
from hookline.engine.kv_cache.block_pool import BlockPool
from hookline.engine.kv_cache.manager import KVCacheManager
from hookline.engine.scheduler.extension import SchedulerExtensions
from hookline.engine.scheduler.plan_builder import Entry
from hookline.engine.scheduler.queue import RequestTimes
from hookline.engine.scheduler.request_queues import RequestQueues
from hookline.events import Finished, Preempted, PreemptionCause, Queued, StepEvents
from hookline.finish_cause import Failed, FinishCause, TimedOut
from hookline.request import (
    FinishReason,
    GenerateRequest,
    Request,
    RequestFacts,
    RequestStatus,
)
from hookline.sections import NO_SECTIONS, Sections
from hookline.stats.scheduler_stats import (
    EngineTotals,
    PrefixCacheCounts,
    Residue,
    RunningTotals,
)

_log = logging.getLogger(__name__)


class Ledger(RunningTotals):
    """Totals since the engine's start, while they are counted."""

    def totals(self) -> EngineTotals:
        """Returns the totals so far."""
        return EngineTotals(*astuple(self))

    def receive(self, *, is_moved: bool) -> None:
        if is_moved:
            self.migrated_in += 1
        else:
            self.received += 1

    def count_finished(self, reason: FinishReason, output_tokens: int) -> None:
        # Replaced, because the totals of before keep theirs.
        self.finished = {**self.finished, reason: self.finished.get(reason, 0) + 1}
        self.finished_tokens += output_tokens

    def preempt(self, event: Preempted) -> None:
        self.preemptions += 1
        self.preempted_prompt_tokens += event.prompt_tokens
        self.preempted_output_tokens += event.output_tokens

    def count_lookup(self, queried_tokens: int, hit_tokens: int) -> None:
        before = self.prefix_cache
        self.prefix_cache = PrefixCacheCounts(
            before.requests + 1,
            before.queried_tokens + queried_tokens,
            before.hit_tokens + hit_tokens,
        )

    def audit(
        self,
        live: Collection[Request],
        pool: BlockPool,
        held_blocks: Iterable[Sequence[int]] = (),
    ) -> None:
        """Recounts what is in flight and stores what does not add up as `residue`.

        Args:
            live: All requests that have not ended.
            pool: Blocks, referenced by requests and extensions.
            held_blocks: Blocks that extensions reference.
        """
        tables = [*(request.block_ids for request in live), *held_blocks]
        held = set().union(*tables)
        entries = sum(map(len, tables))
        outputs = sum(request.num_output_tokens for request in live)
        self.residue = Residue(
            requests=self.received
            + self.migrated_in
            - sum(self.finished.values())
            - len(live),
            tokens=self.sampled_tokens - self.finished_tokens - outputs,
            blocks=abs(pool.num_used - len(held)) + abs(pool.num_references - entries),
        )


class RequestLifecycle:
    """Owns the live requests of an engine, their queues and their events.

    Attributes:
        requests: Live requests by id.
        queues: The queues of requests.
        cache: Allocates their blocks.
        extensions: Sides of extensions, and gates.
        drafts: Drafts of their next tokens, by request id.
        events: Events since the last output.
        ledger: Totals since the start.
        arrivals: Number of requests that were queued.
    """

    def __init__(
        self,
        queues: RequestQueues,
        cache: KVCacheManager,
        extensions: SchedulerExtensions,
        *,
        max_model_len: int,
    ) -> None:
        self.requests: dict[int, Request] = {}
        self.queues = queues
        self.drafts: dict[int, list[int]] = {}
        self.events = StepEvents()
        self.ledger = Ledger()
        self._deadlines = RequestTimes()
        self.cache, self.extensions = cache, extensions
        self._max_model_len = max_model_len
        self.arrivals = 0

    def take_events(self) -> StepEvents:
        """Returns the events since the last call."""
        events, self.events = self.events, StepEvents()
        cache = self.cache
        if cache.pool.measured:
            events.evictions, cache.pool.measured = cache.pool.measured, []
        if cache.events is not None:
            events.cache_changes = cache.events.drain()
        return events

    def add(self, inner: GenerateRequest, now: int) -> None:
        """Queues a request that the front end has validated.

        Raises:
            ValueError: The id is in use, or the prompt does not fit the context.
        """
        room = self._max_model_len - len(inner.prompt_token_ids)
        if inner.is_prefill_only:
            room += 1  # its end takes the place of a first token, but no room
        if inner.request_id in self.requests or room < 1 or not inner.prompt_token_ids:
            raise ValueError(
                f"request {inner.request_id} with {len(inner.prompt_token_ids)} prompt "
                f"tokens cannot be added"
            )
        limit = 1 if inner.is_prefill_only else inner.params.max_tokens
        self.arrivals += 1
        request = Request(
            inner,
            sequence=self.arrivals,
            queued_at=now,
            max_tokens=room if limit is None else min(limit, room),
        )
        self.requests[request.request_id] = request
        self.ledger.receive(is_moved=inner.is_moved)
        if (seconds := inner.timeout_seconds) is not None:
            self._deadlines.add(request, now + round(seconds * NANOSECONDS))
        if self.queues.fair is not None:
            self.queues.fair.arrived(request)
        self.queues.wait(request, now)
        queued = Queued(request.request_id, now, request.num_prompt_tokens)
        self.events.queued.append(queued)

    def refuse(self, inner: GenerateRequest, detail: str, now: int) -> None:
        """Ends a request with an error that `add` has refused.

        If another live request has its id, that one goes on, and no event follows.
        """
        _log.error(
            "request %d was refused: %s",
            inner.request_id,
            detail,
            extra=_identity(inner.facts),
        )
        if inner.request_id in self.requests:
            return
        self.ledger.receive(is_moved=inner.is_moved)
        num_tokens = len(inner.prompt_token_ids)
        self.events.queued.append(Queued(inner.request_id, now, num_tokens))
        cause = Failed(detail)
        self.ledger.count_finished(cause.reason, 0)
        self.events.finished.append(Finished(inner.request_id, now, cause, 0))

    def finish_request(
        self,
        request: Request,
        cause: FinishCause,
        now: int,
        sections: Sections = NO_SECTIONS,
    ) -> None:
        """Ends a request, wherever it is; frees its blocks.

        Args:
            request: The request.
            cause: Why it ends.
            now: Time, ns.
            sections: Results of extensions for its client.
        """
        self.queues.remove(request)
        if self.extensions.finishes:
            sections = {**sections, **self.extensions.finished(request, now)}
        if cause.reason in (FinishReason.STOP, FinishReason.LENGTH):
            self.cache.prove(request)
        self.cache.free(request)
        request.status = RequestStatus.FINISHED
        del self.requests[request.request_id]
        self.drafts.pop(request.request_id, None)
        if request.inner.timeout_seconds is not None:
            self._deadlines.remove(request)
        if self.queues.fair is not None:
            self.queues.fair.ended(request)
        outputs = request.num_output_tokens
        self.ledger.count_finished(cause.reason, outputs)
        corrupted_by = request.corrupted_by
        stored = request.num_stored_prompt_tokens
        event = Finished(
            request.request_id, now, cause, outputs, stored, sections, corrupted_by
        )
        self.events.finished.append(event)

    def expire(self, now: int) -> None:
        """Ends the requests whose deadlines have passed."""
        while self._deadlines.members and (request := self._deadlines.due(now)):
            self.finish_request(request, TimedOut(), now)

    def preempt(
        self,
        victim: Request,
        now: int,
        cause: PreemptionCause,
        *,
        beneficiary: Request | None = None,
        num_failed: int = 0,
    ) -> None:
        """Frees a running request's blocks and queues it again.

        Args:
            victim: The request.
            now: Time, ns.
            cause: Why it is preempted.
            beneficiary: The request that needs its blocks; None if no other one does.
            num_failed: Tokens that an extension should have brought and has not.
        """
        whom = None if beneficiary is None else beneficiary.request_id
        prompt, output = victim.num_prompt_tokens, victim.num_output_tokens
        computed = victim.num_computed_tokens
        event = Preempted(
            victim.request_id, now, computed, num_failed, cause, whom, prompt, output
        )
        self.events.preempted.append(event)
        self.cache.free(victim)
        self.queues.running.remove(victim)
        victim.status = RequestStatus.PREEMPTED
        self.drafts.pop(victim.request_id, None)
        if not victim.num_pending_tokens:
            victim.prompt_logprobs = []
        self.ledger.preempt(event)
        self.queues.preempted.add(victim.request_id)
        self.queues.waiting.push(victim)

    def planned(self, entry: Entry, step: int) -> None:
        """Counts a plan's tokens as computed; drafts only once they are accepted."""
        request, ledger = entry.request, self.ledger
        request.num_drafts = len(entry.drafts)
        request.last_step = step
        before, most = request.num_computed_tokens, request.max_computed_tokens
        after = before + entry.num_tokens - request.num_drafts
        ledger.computed_tokens += entry.num_tokens
        if before < most:
            ledger.recomputed_tokens += min(after, most) - before
        request.num_computed_tokens = after
        request.max_computed_tokens = max(after, most)
        if not request.num_missing_tokens:
            request.num_pending_tokens += 1  # the step samples the one that follows

    def resume_ready(self, now: int) -> None:
        """Queues held requests whose gates have opened; ends those that failed."""
        for ready in self.queues.held.take_ready(now):
            request = ready.request
            if request not in self.queues.held:
                continue  # it has ended, or became ready when it was too late
            if ready.cause is not None:
                self.finish_request(request, ready.cause, now)
            else:
                self.queues.held.let_go(request, now)
                self.queues.wait(request, now)


def _identity(facts: RequestFacts) -> dict[str, str]:
    """Returns the fields of a log line that belongs to a client's request."""
    fields = {
        "request_id": facts.client_id,
        "trace_id": facts.trace_id,
        "span_id": facts.span_id,
    }
    return {name: value for name, value in fields.items() if value}
