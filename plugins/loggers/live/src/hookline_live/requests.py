"""What is known of each request: its phases, its tokens, and how long they took."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hookline_live.blocks import BlockMap
from hookline_live.columns import Columns
from hookline_live.frame import Row
from hookline_recording.schema import (
    Arrived,
    Events,
    Finished,
    Gated,
    Preempted,
    Scheduled,
)

MOST_PHASES = 32
MOST_SHOWN = 128
"""Characters of an id or a tenant."""
_SERVED = ("stop", "length")


@dataclass(slots=True)
class Request:
    """A request while it is open, and until its end was shown.

    Attributes:
        facts: As it arrived.
        phases: (phase, begin in ns), in order.
        cached: Prompt tokens found in a cache.
        output: Tokens generated, as far as known.
        last_at: When the last of them came; None if that is not known.
        is_partial: Whether it began before what is known.
        end: Reason of its end.
        has_changed: Whether more than `output` has changed since it was last shown.
    """

    facts: Arrived
    phases: list[tuple[str, int]]
    cached: int = 0
    output: int = 0
    last_at: int | None = None
    is_partial: bool = False
    end: str = ""
    has_changed: bool = True

    @property
    def phase(self) -> str:
        return self.phases[-1][0]

    @property
    def tenant(self) -> str:
        return (self.facts.tenant or "")[:MOST_SHOWN]

    @property
    def adapter(self) -> str:
        return (self.facts.adapter or "")[:MOST_SHOWN]

    def enter(self, phase: str, at: int) -> None:
        """Begins a phase; of very many, the middle ones are left out."""
        if len(self.phases) >= MOST_PHASES:
            del self.phases[MOST_PHASES // 2]
        self.phases.append((phase, at))
        self.has_changed = True

    def row(self, end: int) -> Row:
        """Describes it; times are relative to `end`."""
        facts = self.facts
        return Row(
            id=facts.request_id,
            client=facts.client_id[:MOST_SHOWN],
            response=facts.response_id[:MOST_SHOWN],
            tenant=self.tenant,
            adapter=self.adapter,
            priority=facts.priority,
            prompt=facts.prompt_tokens,
            limit=facts.max_tokens or 0,
            cached=self.cached,
            output=self.output,
            is_partial=self.is_partial,
            phases=[(phase, (at - end) // 1_000_000) for phase, at in self.phases],
            end=self.end,
        )


@dataclass(slots=True)
class _Even:
    """Steps of one batch that each brought every request one token.

    They are counted together: most steps are such, and what happens in each of them
    must not cost time for each request.
    """

    ids: tuple[int, ...] = ()
    steps: int = 0
    last_at: int = 0


@dataclass(slots=True)
class Requests:
    """The requests of an engine by their ids.

    Attributes:
        columns: Where durations and tokens are counted.
        blocks: Where their blocks are noted.
    """

    columns: Columns
    blocks: BlockMap
    known: dict[int, Request] = field(default_factory=dict)
    _even: _Even = field(default_factory=_Even)

    def arrived(self, facts: Arrived) -> None:
        """Takes a new request, or what a key frame repeats of an older one."""
        if facts.request_id not in self.known:
            self.known[facts.request_id] = Request(
                facts, [("queued", facts.at)], is_partial=facts.is_repeated
            )

    def sampled(
        self, ids: tuple[int, ...], counts: Mapping[int, int] | None, at: int
    ) -> None:
        """Takes the tokens of a step: one for each request if `counts` is None."""
        even = self._even
        if counts is None and ids is even.ids:
            even.steps += 1
            self.columns.took("itl", at - even.last_at, len(ids))
            even.last_at = at
            return
        self.settle()
        for request_id in ids if counts is None else counts:
            new = 1 if counts is None else counts[request_id]
            request = self.known.get(request_id)
            if request is not None and new:
                self._generated(request, new, at)
        self._even = _Even(ids, 0, at) if counts is None else _Even()

    def settle(self) -> None:
        """Counts what even steps have brought so far."""
        even = self._even
        if even.steps:
            for request_id in even.ids:
                request = self.known.get(request_id)
                if request is not None and not request.end:
                    request.output += even.steps
                    request.last_at = even.last_at
                    self.columns.generated(request.tenant, even.steps)
            even.steps = 0

    def happened(self, events: Events) -> None:
        """Takes what happened to requests before their tokens came."""
        for queued in events.queued:
            if (request := self.known.get(queued.request_id)) is not None:
                request.phases[0] = ("queued", queued.at)
        for scheduled in events.scheduled:
            self._scheduled(scheduled)
        for preempted in events.preempted:
            self._preempted(preempted)

    def gated(self, event: Gated) -> None:
        """Takes that a request is set aside at a gate, or need not wait there."""
        request = self.known.get(event.request_id)
        if request is not None and not request.end:
            request.enter("gated" if event.gate else "queued", event.at)

    def ended(self, events: Events) -> None:
        """Takes the ends of requests, after their last tokens."""
        if events.finished:
            self.settle()
        for finished in events.finished:
            self._finished(finished)

    def admitted(self, ids: Iterable[int], at: int) -> None:
        """Has requests of a step run whose admission is not known."""
        for request_id in ids:
            request = self.known.get(request_id)
            if request is not None and request.phase in ("queued", "preempted"):
                request.enter("decode" if request.is_partial else "prefill", at)

    def forget_ended(self) -> None:
        """Forgets the requests that have ended."""
        for request_id in [key for key, each in self.known.items() if each.end]:
            del self.known[request_id]

    def _generated(self, request: Request, new: int, at: int) -> None:
        if request.last_at is not None:
            self.columns.took("itl", (at - request.last_at) / new, new)
        elif not request.is_partial:
            self.columns.took("ttft", at - request.facts.at)
        if request.phase != "decode" and not request.end:
            request.enter("decode", at)
        request.output += new
        request.last_at = at
        self.columns.generated(request.tenant, new)

    def _scheduled(self, event: Scheduled) -> None:
        request = self.known.get(event.request_id)
        if request is None:
            return
        column = self.columns.now
        if event.waited is not None:
            column.loads += 1
            column.loaded += event.external_cached_tokens + event.transferred_tokens
            column.load_us += (event.waited[1] - event.waited[0]) // 1000
        if not event.is_resumed:
            request.is_partial = False
            request.cached = event.local_cached_tokens + event.external_cached_tokens
            self.columns.took("queue", event.at - request.phases[0][1])
            column.prompt += request.facts.prompt_tokens
            column.cached += request.cached
        request.enter("prefill", event.at)

    def _preempted(self, event: Preempted) -> None:
        self.settle()
        self._even = _Even()
        self.columns.now.preempted += 1
        self.blocks.forget(event.request_id)
        if (request := self.known.get(event.request_id)) is not None:
            request.output = event.output_tokens
            request.enter("preempted", event.at)

    def _finished(self, event: Finished) -> None:
        self.columns.now.finished += 1
        self.blocks.forget(event.request_id)
        if (request := self.known.get(event.request_id)) is None:
            return
        if event.reason in _SERVED:
            self.columns.took("e2e", event.at - request.facts.at)
        request.output, request.is_partial = event.output_tokens, False
        request.enter("end", event.at)
        request.end = event.reason or "ended"
