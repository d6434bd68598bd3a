"""One of vLLM's engines: its requests and its state, told as any engine's are."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from hookline.clock import Clock
from hookline.config.engine import EngineConfig
from hookline.events import ClockPair, StepEvents, StepOutput
from hookline.finish_cause import Failed, Rejected
from hookline.frontend.accounting import RequestAccounting
from hookline.frontend.observing import REQUESTS, Observing
from hookline.frontend.request_account import RequestAccount
from hookline.frozen import EMPTY
from hookline.payloads import EngineFacts
from hookline.request import FinishReason, RequestFacts
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import (
    EngineTotals,
    PrefixCacheCounts,
    Residue,
    SchedulerStats,
)
from hookline.stats.step_work import BlockEviction
from hookline_metrics.balanced_state import balanced
from hookline_vllm.api_servers import STATE
from hookline_vllm.engine_events import Rounds, aborts, nanoseconds
from hookline_vllm.news import News
from hookline_vllm.shapes import (
    IterationShape,
    SchedulerShape,
    each_of,
)
from hookline_vllm.summed import SummedRequests

HEARTBEAT = "heartbeat"
NOTHING = IterationStats()
DEFERRED = "deferred"
"""Name of what vLLM's requests wait for that capacity does not help."""


class EngineAccount:
    """One engine, as the thread of the attachment knows it.

    Attributes:
        accounting: Its requests, as far as vLLM's front end tells of each.
        requests: Those in flight by vLLM's ids, as the front end has placed them.
        tells_tokens: Whether a logger wants to know which tokens requests get.
        is_alone: Whether it has all requests of this process, and no others.
    """

    def __init__(
        self,
        facts: EngineFacts,
        config: EngineConfig,
        observers: Observing,
        clock: Clock,
        *,
        is_alone: bool,
        tells_requests: bool,
    ) -> None:
        self.is_alone = is_alone
        self.requests: dict[str, RequestAccount] = {}
        keeps_prompts = config.observers.keep_prompts
        self.tells_tokens = keeps_prompts or observers.listens("tokens_generated")
        self._index = facts.engine_index
        self._facts = facts
        self._observers = observers
        self._clock = clock
        started = ClockPair(clock.wall(), clock.now())
        self.accounting = RequestAccounting(clock, started, keep_prompts=keeps_prompts)
        self._summed = None if tells_requests else SummedRequests()
        self._totals = EngineTotals()
        self._stats = SchedulerStats(kv_blocks=facts.model.num_kv_blocks)
        self._told: SchedulerShape | None = None
        self._is_fresh, self._news = False, News()
        observers.started(facts, started)

    # -- what vLLM tells ----------------------------------------------------------

    def recorded(
        self,
        scheduler: SchedulerShape | None,
        iteration: IterationShape | None,
        rounds: Rounds,
        at: int,
    ) -> None:
        """Takes in an iteration: its state, and its outputs or only their sums."""
        if scheduler is not None:
            self._state(scheduler)
        if self._summed is None:
            if rounds.ended and iteration is not None:
                ended = iteration.finished_requests
                rounds.correct([str(each.finish_reason) for each in ended])
            evicted = () if scheduler is None else scheduler.kv_cache_eviction_events
            self._outputs(rounds, [_eviction(each) for each in evicted], at)
        elif iteration is not None:
            sums = self._summed.iteration(iteration)
            self._news.add(at, StepEvents(), sums, EMPTY)

    def aborted(self, accounts: Sequence[RequestAccount], at: int, by: str) -> None:
        """Ends requests whose clients have left, or that someone has aborted."""
        self._take(aborts(accounts, at, by), at, at)

    def refused(self, reason: str, at: int) -> None:
        cause = Rejected(reason, "vLLM had too much to do", reason)
        iteration = self.accounting.reject(RequestFacts(), cause)
        self.flush()
        self._tell(StepEvents(), at, "rejected", iteration)

    def slept(self, level: int, at: int) -> None:
        self.flush()
        self._stats = replace(self._stats, sleep_level=level)
        cause = "sleep" if level else "wake_up"
        self._tell(StepEvents(), at, cause)

    def heartbeat(self, at: int) -> None:
        self.flush()
        clock = ClockPair(self._clock.wall(), self._clock.now())
        self._tell(StepEvents(), at, HEARTBEAT, clock=clock)

    def close(self, at: int) -> None:
        """Ends all requests: the server ends."""
        self.flush()
        if self.accounting.in_flight:
            iteration, ended = self.accounting.end_all(Failed("vLLM has ended"), at)
            facts = {each.request_id: each.facts for each in iteration.finished}
            self._count(iteration)
            self._stats = self._latest().at_rest()
            self._tell(StepEvents(finished=ended), at, "drain", iteration, facts=facts)
        self._observers.stopped(self._index, "closed")

    def _outputs(self, rounds: Rounds, evictions: list[BlockEviction], at: int) -> None:
        step_at = rounds.at or at
        if rounds.intervals:
            self._news.count(step_at, rounds.intervals)
        if evictions and not rounds.rounds:
            rounds.rounds.append(StepEvents())
        for events in rounds.rounds:
            if events is rounds.rounds[-1]:
                events.evictions = evictions
            self._take(events, step_at, rounds.received_at or at)

    def _take(self, events: StepEvents, at: int, received_at: int) -> None:
        if events.preempted:  # in one output they are before what is scheduled
            self.flush()
        output = StepOutput(self._index, at, REQUESTS, self._stats, events=events)
        wanted = self._observers.observed_requests(output)
        facts = self.accounting.facts_of(wanted)
        iteration = self.accounting.on_step_output(output, received_at)
        self._news.add(at, events, iteration, facts)

    # -- what loggers get ---------------------------------------------------------

    def flush(self) -> None:
        """Tells what has happened since the last time: one sum for all steps."""
        news = self._news
        if news.at is not None:
            self._news = News()
            events, iteration, facts = news.events, news.iteration, news.facts
            self._count(iteration)
            self._tell(events, news.at, REQUESTS, iteration, facts=facts)

    def _tell(
        self,
        events: StepEvents,
        at: int,
        cause: str,
        iteration: IterationStats = NOTHING,
        *,
        facts: Mapping[int, RequestFacts] = EMPTY,
        clock: ClockPair | None = None,
    ) -> None:
        # Of several API servers, only some are told the state of a step.
        if self._is_fresh and cause in {REQUESTS, HEARTBEAT}:
            cause, self._is_fresh = STATE, False
        stats = self._present()
        output = StepOutput(self._index, at, cause, stats, events=events, clock=clock)
        self._observers.observe(output, iteration, facts)

    def _present(self) -> SchedulerStats:
        """The latest state, as of all that has begun and ended since."""
        stats, accounting = self._latest(), self.accounting
        if self._summed is not None:
            present = stats.running + stats.waiting + sum(stats.held.values())
            received = sum(self._summed.finished.values()) + present
            totals = replace(
                self._totals,
                received=received,
                finished=dict(self._summed.finished),
            )
            return replace(stats, totals=totals)
        if self.is_alone:
            stats = balanced(stats, accounting.num_in_flight)
        finished = {
            reason: count
            for reason, count in accounting.finished.items()
            if reason != FinishReason.REJECTED
        }
        rejected = accounting.finished.get(FinishReason.REJECTED, 0)
        totals = replace(
            self._totals,
            received=accounting.received - rejected,
            finished=finished,
            residue=Residue(requests=accounting.residue),
        )
        return replace(
            stats, totals=totals, waiting_tokens=accounting.num_waiting_tokens
        )

    def _latest(self) -> SchedulerStats:
        """The latest state that vLLM has told: of many steps, only that counts."""
        if (told := self._told) is not None:
            self._told = None
            deferred, blocks = told.num_skipped_waiting_reqs, self._stats.kv_blocks
            self._stats = replace(
                self._stats,
                running=told.num_running_reqs,
                waiting=told.num_waiting_reqs,
                held={DEFERRED: deferred} if deferred else {},
                kv_blocks_used=round(told.kv_cache_usage * blocks),
            )
        return self._stats

    def _state(self, told: SchedulerShape) -> None:
        self._is_fresh, self._told = True, told
        if (found := told.prefix_cache_stats) is not None and found.requests:
            before = self._totals.prefix_cache
            counts = PrefixCacheCounts(
                before.requests + found.requests,
                before.queried_tokens + found.queries,
                before.hit_tokens + found.hits,
            )
            self._totals = replace(self._totals, prefix_cache=counts)

    def _count(self, iteration: IterationStats) -> None:
        totals, ended = self._totals, 0
        for request in iteration.finished:
            ended += request.output_tokens
        self._totals = replace(
            totals,
            preemptions=totals.preemptions + iteration.preemptions,
            sampled_tokens=totals.sampled_tokens + iteration.generation_tokens,
            finished_tokens=totals.finished_tokens + ended,
        )


def _eviction(event: object) -> BlockEviction:
    gaps = each_of(getattr(event, "reuse_gaps_seconds", None))
    return BlockEviction(
        lifetime=nanoseconds(getattr(event, "lifetime_seconds", 0.0)),
        idle=nanoseconds(getattr(event, "idle_seconds", 0.0)),
        reuse_gaps=tuple(nanoseconds(each) for each in gaps),
    )
