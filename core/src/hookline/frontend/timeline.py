"""The times and token counts of one request, taken from the engine's events.

No interval mixes the engine's clock with the front end's.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hookline.clock import NANOSECONDS, Clock
from hookline.events import ClockPair, Finished, NewTokens, Preempted, Queued, Scheduled
from hookline.finish_cause import Embedded
from hookline.request import Origin
from hookline.stats.finished_request import MAX_STALLS, RequestTimes


class ClockMapping:
    """Converts times in ns; for display only, never for intervals.

    Attributes:
        engine_offset: Wall clock minus the engine's monotonic clock, in ns.
    """

    __slots__ = ("_front_end_offset", "engine_offset")

    def __init__(self, clock: Clock, engine: ClockPair) -> None:
        self._front_end_offset = clock.wall() - clock.now()
        self.engine_offset = engine.wall - engine.monotonic

    def set_engine(self, pair: ClockPair) -> None:
        """Sets the offset from a new reading of the engine's clocks."""
        self.engine_offset = pair.wall - pair.monotonic

    def set_front_end(self, clock: Clock) -> None:
        """Reads the front end's clocks again."""
        self._front_end_offset = clock.wall() - clock.now()

    def of_engine(self, at: int | None) -> int | None:
        """Converts an engine time to wall time; None stays None."""
        return None if at is None else at + self.engine_offset

    def of_engine_spans(
        self, spans: Iterable[tuple[int, int]]
    ) -> tuple[tuple[int, int], ...]:
        """Converts each (begin, end) of the engine to wall time."""
        offset = self.engine_offset
        return tuple((begin + offset, end + offset) for begin, end in spans)

    def of_front_end(self, at: int) -> int:
        """Converts a front-end time to wall time."""
        return at + self._front_end_offset

    def on_engine(self, at: int) -> int:
        """Converts a front-end time to the engine's monotonic clock."""
        return self.of_front_end(at) - self.engine_offset


@dataclass(slots=True)
class Preemptions:
    """The preemptions of one request; times are the engine's, in ns.

    Attributes:
        count: How often the request was preempted.
        total: Time from each preemption until the request was scheduled again or ended.
        before_first_token: The part of `total` before the first token.
        spans: (begin, end) of the first `MAX_STALLS` of these times.
        recomputed_tokens: Tokens computed again after preemptions.
    """

    count: int = 0
    total: int = 0
    before_first_token: int = 0
    spans: list[tuple[int, int]] = field(default_factory=list)
    recomputed_tokens: int = 0
    _began_at: int | None = None
    _recompute_until: int = 0

    def on_preempted(self, event: Preempted) -> None:
        self.count += 1
        self._began_at = event.at
        # The next Scheduled counts the tokens again that were not recomputed yet.
        not_recomputed = self._recompute_until - event.computed_tokens
        self.recomputed_tokens -= max(0, not_recomputed)

    def resume(self, event: Scheduled, *, has_token: bool) -> None:
        """Ends the preemption under way, if any.

        Args:
            event: The first or a later admission of the request.
            has_token: Whether the request has its first token.
        """
        self.recomputed_tokens += event.recomputed_tokens
        found = event.local_cached_tokens + event.external_cached_tokens
        found += event.transferred_tokens
        self._recompute_until = found + event.recomputed_tokens
        self.close_current(event.at, has_token=has_token)

    def first_token(self, at: int) -> None:
        """Notes the first token, which may come from a step before a preemption."""
        if self._began_at is not None:
            self.before_first_token += at - self._began_at

    def close_current(self, at: int, *, has_token: bool) -> None:
        """Ends the preemption under way, if any, such as at the request's end."""
        if self._began_at is None:
            return
        self.total += at - self._began_at
        if not has_token:
            self.before_first_token += at - self._began_at
        if len(self.spans) < MAX_STALLS:
            self.spans.append((self._began_at, at))
        self._began_at = None


@dataclass(slots=True)
class Timeline:
    """What one engine does with a request.

    Intervals are in seconds, and None until both of their ends are known.

    Attributes:
        local_cached_tokens: Prompt tokens in the prefix cache at its first admission.
        external_cached_tokens: Prompt tokens that a KV connector found, likewise.
        transferred_tokens: Prompt tokens that another instance computed, likewise.
        stored_prompt_tokens: Prompt tokens added to the cache; known at the end.
        output_tokens: Number of tokens generated so far.
        draft_tokens: Number of draft tokens verified so far.
        accepted_tokens: Number of `draft_tokens` that were accepted.
        steps_by_accepted: Number of steps that verified drafts, by how many of these
            were accepted; it ends with the most that a step could accept.
        forward_ns: Time in the model's forward pass, summed over the request's steps;
            None unless measured for each request.
        execute_ns: Time in the executor, likewise.
        schedule_ns: Time in the scheduler, likewise.
        preemptions: Time and tokens lost to preemptions.
        first_token_received: When the first token came, in ns on the front end's clock.
        corrupted_by: Whose output was corrupted, if it was served nevertheless; known
            at the end.
    """

    local_cached_tokens: int = 0
    external_cached_tokens: int = 0
    transferred_tokens: int = 0
    stored_prompt_tokens: int = 0
    output_tokens: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    steps_by_accepted: list[int] = field(default_factory=list)
    forward_ns: int | None = None
    execute_ns: int | None = None
    schedule_ns: int | None = None
    preemptions: Preemptions = field(default_factory=Preemptions)
    first_token_received: int | None = None
    corrupted_by: Origin | None = None
    _queued: int | None = None
    _scheduled: int | None = None
    _last_scheduled: int | None = None
    _first_token: int | None = None
    _resumed_token: int | None = None  # the first since `_last_scheduled`
    _last_token: int | None = None
    _prefilled: int | None = None  # at the end, without a token
    _remote_kv: list[tuple[int, int]] = field(default_factory=list)

    # -- events ------------------------------------------------------------------

    def queued(self, event: Queued) -> None:
        self._queued = event.at

    def scheduled(self, event: Scheduled) -> None:
        if self._scheduled is None:
            self._scheduled = event.at
            self.local_cached_tokens = event.local_cached_tokens
            self.external_cached_tokens = event.external_cached_tokens
            self.transferred_tokens = event.transferred_tokens
        self._last_scheduled, self._resumed_token = event.at, None
        if event.remote_kv is not None and len(self._remote_kv) < MAX_STALLS:
            self._remote_kv.append(event.remote_kv)
        self.preemptions.resume(event, has_token=self._first_token is not None)

    def preempted(self, event: Preempted) -> None:
        if not self.preemptions.count:  # cached tokens are those of the first admission
            # A load fails from some place on, and what is transferred comes last.
            moved = min(event.failed_external_tokens, self.transferred_tokens)
            self.transferred_tokens -= moved
            self.external_cached_tokens -= event.failed_external_tokens - moved
        self.preemptions.on_preempted(event)

    def computed(self, forward_ns: int, execute_ns: int, schedule_ns: int) -> None:
        """Adds the times of a step that the request was part of."""
        self.forward_ns = (self.forward_ns or 0) + forward_ns
        self.execute_ns = (self.execute_ns or 0) + execute_ns
        self.schedule_ns = (self.schedule_ns or 0) + schedule_ns

    def new_tokens(self, event: NewTokens, received_at: int) -> int | None:
        """Counts new tokens.

        Returns:
            The ns since the tokens before, or None for the request's first.
        """
        previous, self._last_token = self._last_token, event.at
        if self._resumed_token is None:
            self._resumed_token = event.at
        self.output_tokens += len(event.token_ids)
        if event.draft_tokens:
            self._verified(event)
        if previous is None:
            self._first_token = event.at
            self.first_token_received = received_at
            self.preemptions.first_token(event.at)
            return None
        return event.at - previous

    def next_token(self, at: int) -> int:
        """Counts one more token of a request that has some, which no drafts verify.

        Does the same as `new_tokens`, for engines that report only numbers of tokens.

        Returns:
            The ns since the token before.
        """
        previous, self._last_token = self._last_token, at
        if self._resumed_token is None:
            self._resumed_token = at
        self.output_tokens += 1
        return at - (previous or at)

    def _verified(self, event: NewTokens) -> None:
        self.draft_tokens += event.draft_tokens
        self.accepted_tokens += event.accepted_tokens
        steps = self.steps_by_accepted
        if len(steps) <= event.draft_tokens:
            steps += [0] * (event.draft_tokens + 1 - len(steps))
        steps[event.accepted_tokens] += 1

    def finished(self, event: Finished) -> None:
        if isinstance(event.cause, Embedded):
            self._prefilled = event.at
        self.stored_prompt_tokens = event.stored_prompt_tokens
        self.corrupted_by = event.corrupted_by
        self.preemptions.close_current(
            event.at, has_token=self._first_token is not None
        )

    # -- intervals ---------------------------------------------------------------

    @property
    def was_queued(self) -> bool:
        """Whether the engine has confirmed that it has the request."""
        return self._queued is not None

    @property
    def was_scheduled(self) -> bool:
        return self._scheduled is not None

    @property
    def queue_seconds(self) -> float | None:
        return seconds_between(self._queued, self._scheduled)

    @property
    def last_scheduled_seconds(self) -> float | None:
        return seconds_between(self._queued, self._last_scheduled)

    @property
    def prefill_seconds(self) -> float | None:
        return seconds_between(self._scheduled, self._first_token or self._prefilled)

    @property
    def decode_seconds(self) -> float | None:
        return seconds_between(self._first_token, self._last_token)

    @property
    def inference_seconds(self) -> float | None:
        return seconds_between(self._scheduled, self._last_token or self._prefilled)

    @property
    def since_last_scheduled(self) -> tuple[float | None, float | None, float | None]:
        """Prefill, decode and inference as if the last admission were the only one."""
        first, start = self._resumed_token or self._prefilled, self._last_scheduled
        last = self._last_token if self._resumed_token else self._prefilled
        decode = seconds_between(self._resumed_token, last)
        return seconds_between(start, first), decode, seconds_between(start, last)

    @property
    def tpot_seconds(self) -> float | None:
        """Decode time per token after the first; None for fewer than two tokens."""
        decode, later_tokens = self.decode_seconds, self.output_tokens - 1
        return None if decode is None or later_tokens < 1 else decode / later_tokens

    def times(
        self, wall: ClockMapping, *, arrived_at: int, ended_at: int
    ) -> RequestTimes:
        """Places the request's phases on the wall clock.

        Args:
            wall: Places them.
            arrived_at: When the request arrived, in ns on the front end's clock.
            ended_at: When it ended for its client, likewise.
        """
        engine = wall.of_engine
        return RequestTimes(
            arrived=wall.of_front_end(arrived_at),
            queued=engine(self._queued),
            scheduled=engine(self._scheduled),
            first_token=engine(self._first_token),
            last_token=engine(self._last_token),
            ended=wall.of_front_end(ended_at),
            preempted=wall.of_engine_spans(self.preemptions.spans),
            remote_kv=wall.of_engine_spans(self._remote_kv),
        )


def seconds_between(start: int | None, end: int | None) -> float | None:
    """Seconds between two times in ns on one clock; None if either is unknown."""
    return None if start is None or end is None else (end - start) / NANOSECONDS
