"""An upstream as an engine: the requests that it has, and what it tells of itself."""

from dataclasses import dataclass, field, replace

from hookline import __version__
from hookline.clock import Clock
from hookline.events import ClockPair, Finished, NewTokens, StepEvents, StepOutput
from hookline.finish_cause import FinishCause, Rejected
from hookline.frontend.accounting import RequestAccounting
from hookline.frontend.observing import Observing
from hookline.frontend.request_account import RequestAccount
from hookline.frozen import EMPTY
from hookline.payloads import EngineFacts, EngineFailed
from hookline.request import GenerateRequest, RequestFacts
from hookline.stats.finished_request import FinishedGroup, FinishedRequest
from hookline.stats.iteration_stats import FirstToken, IterationStats
from hookline.stats.scheduler_stats import EngineTotals, SchedulerStats
from hookline.step import ModelShape
from hookline_gateway.measuring.measurement import Measurement
from hookline_gateway.measuring.told import told
from hookline_gateway.upstreams.instance import Instance

LONGEST = 1 << 20
"""Context length of models that tell none; it only bounds buckets."""

KV_PARTS = 10_000
"""Parts into which a cache is divided whose use is told as a ratio."""


_NO_STATE = SchedulerStats()


@dataclass(slots=True)
class _News:
    """What has happened since the loggers were told."""

    ended: list[Finished] = field(default_factory=list)
    facts: dict[int, RequestFacts] = field(default_factory=dict)
    first_tokens: list[FirstToken] = field(default_factory=list)
    finished: list[FinishedRequest] = field(default_factory=list)
    intervals: list[tuple[float, int]] = field(default_factory=list)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    moved: int = 0
    came: int = 0

    def iteration(self) -> IterationStats:
        return IterationStats(
            prompt_tokens_computed=self.prompt_tokens - self.cached_tokens,
            prompt_tokens_local=self.cached_tokens,
            generation_tokens=self.output_tokens,
            first_tokens=tuple(self.first_tokens),
            inter_token_seconds=tuple(self.intervals),
            finished=tuple(self.finished),
            finished_groups=tuple(
                FinishedGroup(requests=(each,))
                for each in self.finished
                if each.request_id
            ),
            moved=self.moved,
            migrated_in=self.came,
        )


class UpstreamEngine:
    """Accounts for one upstream's requests, and tells the loggers as an engine does.

    Attributes:
        accounting: Its requests.
        has_news: Whether `tell` has something to tell.
    """

    def __init__(
        self, index: int, instance: Instance, observers: Observing, clock: Clock
    ) -> None:
        """Tells nothing before `looked`.

        Args:
            index: Its number among the upstreams, from 0.
            instance: The upstream.
            observers: The loggers.
            clock: Takes all times.
        """
        self._index = index
        self._instance = instance
        self._observers = observers
        self._clock = clock
        self._news = _News()
        self._facts: EngineFacts | None = None
        self._is_failed = False
        # All that it was asked, and what of it this start of the engine does not count.
        self._received = self._received_before = 0
        self.accounting = RequestAccounting(clock, self._pair())
        self.has_news = False

    # -- requests ----------------------------------------------------------------

    def admit(
        self,
        request: GenerateRequest,
        request_id: int,
        *,
        arrived_at: int,
        is_streamed: bool,
    ) -> None:
        """Counts a request that it is asked now."""
        self.accounting.admit(
            request, [request_id], arrived_at=arrived_at, is_streamed=is_streamed
        )
        self._received += 1
        self.has_news = True

    def detach(self, request_id: int) -> list[RequestAccount]:
        """Gives up a request, which another upstream gets."""
        self._news.moved += 1
        self.has_news = True
        return self.accounting.detach([request_id])

    def take_over(self, accounts: list[RequestAccount]) -> None:
        """Counts a request that another upstream has not served."""
        self.accounting.take_over(accounts)
        self._news.came += len(accounts)
        self.has_news = True

    def reject(self, facts: RequestFacts, cause: Rejected) -> None:
        """Counts a request that no upstream was asked."""
        iteration = self.accounting.reject(facts, cause)
        self._news.finished += iteration.finished
        self.has_news = True

    def first_token(self, request_id: int, at: int) -> None:
        """Counts the first token of a stream, of which the answer's end tells more."""
        event = NewTokens(request_id, at, (0,))
        iteration = self._account(request_id, StepEvents(new_tokens=[event]), at)
        self._news.first_tokens += iteration.first_tokens

    def ended(
        self, request_id: int, cause: FinishCause, at: int, measured: Measurement
    ) -> None:
        """Counts the end of a request, with all that its answer has told."""
        events, news = StepEvents(), self._news
        tokens = measured.output_tokens
        if measured.last_at is not None:
            more = range(max(0, (tokens or 0) - 1))
            events.new_tokens.append(NewTokens(request_id, measured.last_at, more))
        end = Finished(request_id, at, cause, tokens or 0)
        events.finished.append(end)
        iteration = self._account(request_id, events, at)
        news.ended.append(end)
        news.intervals += measured.intervals
        if measured.has_tokens:
            news.prompt_tokens += measured.prompt_tokens or 0
            news.cached_tokens += measured.cached_tokens
            news.output_tokens += tokens or 0
        news.finished += [_with(each, measured) for each in iteration.finished]

    def _account(self, request_id: int, events: StepEvents, at: int) -> IterationStats:
        self._news.facts |= self.accounting.facts_of([request_id])
        self.has_news = True
        output = StepOutput(self._index, at, "heartbeat", _NO_STATE, events=events)
        return self.accounting.on_step_output(output, at)

    # -- its state ---------------------------------------------------------------

    def looked(self) -> None:
        """Tells what the last poll has found; nothing before it is first up."""
        if self._facts is None and not self._instance.is_seen:
            return
        facts = self._found_facts()
        if facts != self._facts or (self._is_failed and self._instance.is_up):
            self._start(facts)
        elif not self._is_failed and not self._instance.is_up:
            self._is_failed = True
            self.tell()
            failed = EngineFailed(
                engine_index=self._index,
                reason=f"{self._instance.name} is down",
                open_requests=0,  # they end by themselves
                is_final=False,
            )
            self._observers.failed(failed)
        self.tell()

    def tell(self) -> None:
        """Tells the loggers the news, and the present state."""
        if self._facts is None:
            if not self.has_news:
                return
            self._start(self._found_facts())
        news, self._news = self._news, _News()
        self.has_news = False
        # Tokens are not among the events, since nobody knows their ids.
        events = StepEvents(finished=news.ended)
        self._observers.observe(self._output(events), news.iteration(), news.facts)

    def stopped(self) -> None:
        """Tells that the gateway has ended."""
        self.tell()
        self._observers.stopped(self._index, "shutdown")

    def _start(self, facts: EngineFacts) -> None:
        if self._facts is not None:
            self.tell()  # what happened before counts with the totals so far
            self._received_before = self._received
        cause = "lost" if self._is_failed else ""
        self._facts, self._is_failed = facts, not self._instance.is_up
        self._observers.started(facts, self._pair(), restart_cause=cause)

    def _found_facts(self) -> EngineFacts:
        instance = self._instance
        longest = instance.max_model_len
        tells = told(instance.known_load, longest)
        if self._facts is not None and not instance.is_up:
            tells = self._facts.tells
        return EngineFacts(
            engine_index=self._index,
            model_name=next(iter(instance.models), instance.name),
            model=ModelShape(
                architecture="",
                dtype="",
                cache_dtype="",
                vocab_size=0,
                max_model_len=longest or LONGEST,
                eos_token_ids=(),
            ),
            block_size=1,
            max_num_seqs=0,
            max_num_batched_tokens=0,
            enable_prefix_caching=False,
            executor="remote",
            version=__version__,
            tells=tells,
        )

    def _output(self, events: StepEvents) -> StepOutput:
        return StepOutput(
            engine_index=self._index,
            at=self._clock.now(),
            cause="heartbeat",
            stats=self._state(),
            events=events,
            clock=self._pair(),
        )

    def _state(self) -> SchedulerStats:
        load = self._instance.known_load
        own = self.accounting.num_in_flight
        has_usage = load is not None and load.has_kv_usage
        told = EMPTY if load is None else load.held
        held = {reason: round(count) for reason, count in told.items()}
        return SchedulerStats(
            running=own if load is None else round(load.running),
            waiting=0 if load is None else round(load.waiting) - sum(held.values()),
            held=held,
            kv_blocks=KV_PARTS if has_usage else 0,
            kv_blocks_used=round(self._instance.kv_usage * KV_PARTS),
            totals=EngineTotals(received=self._received - self._received_before),
        )

    def _pair(self) -> ClockPair:
        return ClockPair(wall=self._clock.wall(), monotonic=self._clock.now())


def _with(request: FinishedRequest, measured: Measurement) -> FinishedRequest:
    """Adds what the answer has told to what the times have."""
    return replace(
        request,
        prompt_tokens=measured.prompt_tokens or 0,
        local_cached_tokens=measured.cached_tokens,
        output_tokens=measured.output_tokens or 0,
        tpot_seconds=request.tpot_seconds if measured.has_tokens else None,
        has_tokens=measured.has_tokens,
    )
