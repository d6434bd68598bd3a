"""A recording a window of steps at a time, explained as if it were there as a whole."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import msgspec

from hookline_insight.account import Cause, Piece
from hookline_insight.activity import Activity, Span
from hookline_insight.company import prefills, size_of, weights
from hookline_insight.explainer import Explainer
from hookline_insight.lives import Lives
from hookline_metrics.slo import Phase
from hookline_recording import EngineState, RecordedRequest, RecordedStep, Recording
from hookline_recording.costs import FittedCosts, apportion
from hookline_recording.front_end_schema import Answered
from hookline_recording.recording import take_requests
from hookline_recording.schema import Planned, Record
from hookline_recording.streaming import RecordStream

STEPS = 2048
"""New steps of a window."""
_LAG = 64
"""So many steps are kept from the window before: by then, all is known of a moment."""
_MOST_KEPT = 1024
PROMPTS, TOKENS = "prompt_tokens", "decoding_requests"


class Responses(Mapping[str, Answered]):
    """HTTP responses by the client's own ids, read when they are asked for."""

    def __init__(self, stream: RecordStream) -> None:
        self._stream = stream

    def __getitem__(self, client_id: str) -> Answered:
        found = self._stream.answered(client_id)
        if found is None:
            raise KeyError(client_id)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._stream.answered_ids)

    def __len__(self) -> int:
        return len(self._stream.answered_ids)


@dataclass
class Past:
    """What is held of what was told already.

    Attributes:
        requests: Requests that have not been told to their ends.
        first_tokens: When they had their first tokens.
        told_at: When the output with a request's end was sent.
        began: Begin of the first known steps of requests that began before it.
    """

    begin: int
    requests: dict[int, RecordedRequest] = field(default_factory=dict)
    first_tokens: dict[int, int] = field(default_factory=dict)
    told_at: dict[int, int] = field(default_factory=dict)
    began: dict[int, int] = field(default_factory=dict)

    def forget(self, request_id: int) -> None:
        """Forgets a request that has been told to its end."""
        request = self.requests.pop(request_id)
        self.first_tokens.pop(request_id, None)
        if request.finished is not None:
            self.told_at.pop(request_id, None)
        if request.steps:
            self.began.pop(request.steps[0], None)


@dataclass(frozen=True)
class Excerpt(Recording):
    """Some records of a recording, with all that is known of its open requests."""

    past: Past | None = None
    responses: Mapping[str, Answered] = field(default_factory=dict)

    @cached_property
    def requests(self) -> dict[int, RecordedRequest]:
        assert self.past is not None
        return self.past.requests

    @cached_property
    def answered(self) -> Mapping[str, Answered]:  # type: ignore[override]
        return self.responses


class Steps(dict[int, RecordedStep]):
    """Steps by number; nothing is known of those that are not there any more."""

    def __missing__(self, number: int) -> RecordedStep:
        return RecordedStep(number)


class ExcerptLives(Lives):
    """Lives of requests whose earlier steps are not there any more."""

    def __init__(self, excerpt: Recording, until: int, past: Past) -> None:
        super().__init__(excerpt, until)
        self._past, self._begin = past, past.begin
        self._steps = Steps(self._steps)

    def first_token_at(self, request_id: int) -> int | None:
        known = self._past.first_tokens
        found = known.get(request_id)
        if found is None:
            found = super().first_token_at(request_id)
            if found is not None:
                known[request_id] = found
        return found

    def _told_at(self, request: RecordedRequest) -> int:
        assert request.finished is not None
        known, key = self._past.told_at, request.finished.request_id
        if key not in known:
            known[key] = super()._told_at(request)
        return known[key]

    def _began(self, number: int) -> int:
        known = self._past.began
        if number not in known:
            known[number] = super()._began(number)
        return known[number]


class ExcerptExplainer(Explainer):
    """Explains what an excerpt tells, by the costs of the whole recording."""

    def __init__(
        self, excerpt: Recording, past: Past, costs: FittedCosts | None, now: int | None
    ) -> None:
        super().__init__(excerpt, now)
        self._past, self._costs = past, costs
        self._alike: dict[tuple[Span, Phase, int], Piece] = {}
        self._tokens: dict[int, tuple[dict[int, int], dict[int, int]]] = {}

    @cached_property
    def costs(self) -> FittedCosts:
        assert self._costs is not None
        return self._costs

    @cached_property
    def lives(self) -> Lives:
        return ExcerptLives(self.recording, self.until, self._past)

    def pieces(self, request_id: int, begin: int, end: int) -> Iterator[Piece]:
        """Yields where a request's time went in an interval."""
        first_token = self.lives.first_token_at(request_id)
        for state in self.lives.states(request_id):
            cuts = [max(begin, state.begin), min(end, state.end)]
            if cuts[0] >= cuts[1]:
                continue
            if first_token is not None and cuts[0] < first_token < cuts[1]:
                cuts.insert(1, first_token)
            for cut in pairwise(cuts):
                is_decoding = first_token is not None and cut[0] >= first_token
                for piece in self._pieces(
                    request_id, state, cut, is_decoding=is_decoding
                ):
                    if piece.end > piece.begin:
                        yield piece

    def step_parts(self, index: int, length: int) -> list[tuple[str, int]]:
        """Returns what a step's time went to, as the whole engine sees it.

        Args:
            index: Index of the step.
            length: Its duration, ns: the sum of what is returned.
        """
        step = self.steps[index]
        counts, prompts = self._counts(index)
        if not counts:
            return [(Cause.OVERWRITTEN.value, length)]
        duration, taken = (
            self._durations.get(index, length),
            self._taken.get(index, 0.0),
        )
        first = next(iter(counts))
        rows = weights(step, first, self.costs, duration, taken, is_resumed=False)
        found = dict[str, float]()
        for row in rows:
            name = row.cause.value
            if row.cause in (Cause.OWN, Cause.OTHERS_PROMPTS, Cause.OTHERS_TOKENS):
                is_prompt = row.cause is Cause.OTHERS_PROMPTS or (
                    row.cause is Cause.OWN and first in prompts
                )
                name = PROMPTS if is_prompt else TOKENS
            found[name] = found.get(name, 0.0) + row.weight
        parts = apportion(length, list(found.values()))
        return list(zip(found, parts, strict=True))

    def _run(self, request_id: int, span: Span, phase: Phase) -> Piece:
        """Explains a span once for all requests that fare alike in it."""
        if span.activity is Activity.EXECUTE and span.step is not None:
            counts, prompts = self._counts(span.step)
            tokens = counts.get(request_id, 0)
            if not tokens or request_id in prompts:
                return super()._run(request_id, span, phase)
        else:
            tokens = 0
        key = span, phase, tokens
        piece = self._alike.get(key)
        if piece is None:
            piece = self._alike[key] = super()._run(request_id, span, phase)
        return piece

    def _counts(self, index: int) -> tuple[dict[int, int], dict[int, int]]:
        """Returns the tokens of a step's requests, and those of prompts among them."""
        found = self._tokens.get(index)
        if found is None:
            step = self.steps[index]
            found = self._tokens[index] = step.request_tokens, prefills(step)
        return found


class Window(NamedTuple):
    """A span of a recording, between the ends of the windows beside it.

    Attributes:
        begin: Its begin, ns; of the first one, before all.
        end: Its end; spans of the engine begin there.
    """

    explainer: ExcerptExplainer
    past: Past
    begin: int
    end: int
    is_last: bool

    def has(self, at: int) -> bool:
        """Whether a moment lies in it."""
        return self.begin <= at and (at < self.end or self.is_last)

    def spans(self) -> Iterator[Span]:
        """Yields what the engine did."""
        for span in self.explainer.activities:
            if self.begin <= span.begin < self.end:
                yield span


def windows(
    stream: RecordStream,
    costs: FittedCosts | None,
    now: int | None = None,
    steps: int = STEPS,
) -> Iterator[Window]:
    """Yields the windows of a recording in order; each is dropped for the next.

    Args:
        stream: The recording.
        costs: What its steps cost; None if that is not asked for.
        now: The monotonic clock, if its engine lives, ns.
        steps: New steps of a window.
    """
    source = _Windows(stream, costs, now)
    records: list[Record] = []
    new_steps = 0
    for record in stream.records():
        records.append(record)
        if isinstance(record, Planned):
            new_steps += 1
            if new_steps >= steps:
                yield source.window(records, is_last=False)
                records, new_steps = [], 0
    if records or source.has_begun:
        yield source.window(records, is_last=True)


class _Windows:
    """Makes windows of records, and keeps what the next one needs."""

    def __init__(
        self, stream: RecordStream, costs: FittedCosts | None, now: int | None
    ) -> None:
        self._stream, self._costs, self._now = stream, costs, now
        self._kept: list[Record] = []
        self._first: Record | None = None
        self._past = Past(0)
        self._responses = Responses(stream)
        self._last_step = 0
        self._end = 0

    @property
    def has_begun(self) -> bool:
        return self._first is not None

    def window(self, new: list[Record], *, is_last: bool) -> Window:
        """Returns the next window.

        Args:
            new: Records after those of the window before.
            is_last: Whether none come after these.
        """
        if self._first is None:
            self._first = new[0]
            self._past.begin = new[0].at
        records = self._kept + new
        if records[0] is not self._first:
            records.insert(0, self._first)
        excerpt = Excerpt(
            header=self._stream.header,
            state=EngineState(0, 0, 0, 0),
            records=records,
            past=self._past,
            responses=self._responses,
        )
        self._take(excerpt, new)
        now = self._now if is_last else None
        explainer = ExcerptExplainer(excerpt, self._past, self._costs, now)
        begin = self._end
        if is_last:
            self._end = explainer.until + 1
        else:
            self._end = max(begin, self._settled(explainer))
            self._keep(excerpt, records)
        end = explainer.until if is_last else self._end
        return Window(explainer, self._past, begin, end, is_last)

    def _take(self, excerpt: Excerpt, new: list[Record]) -> None:
        """Adds what the new records tell of requests."""
        steps = [each for each in excerpt.steps if each.number > self._last_step]
        known = set(self._past.requests)
        take_requests(new, steps, self._past.requests)
        if steps:
            self._last_step = steps[-1].number
        for request_id in self._past.requests.keys() - known:
            served = self._stream.served(request_id)
            self._past.requests[request_id].served = served

    def _settled(self, explainer: Explainer) -> int:
        """Returns until when all is known: the begin of a step before the last ones."""
        newest = len(explainer.steps) - _LAG
        settled = 0
        for span in explainer.activities:
            if span.step is not None and span.step > newest:
                break
            if span.activity is Activity.EXECUTE:
                settled = span.begin
        return settled

    def _keep(self, excerpt: Excerpt, records: list[Record]) -> None:
        """Keeps the last steps, since the report before them of the threads' use."""
        steps = excerpt.steps
        first = max(0, len(steps) - 2 * _LAG)
        for index in range(first, max(0, first - _MOST_KEPT), -1):
            computed = steps[index - 1].computed
            if computed is not None and computed.threads is not None:
                first = index
                break
        while first < len(steps) and steps[first].planned is None:
            first += 1
        if first == len(steps):
            self._kept = []
            return
        planned = steps[first].planned
        index = next(at for at, each in enumerate(records) if each is planned)
        self._kept = records[index:]
        ids = steps[first].request_ids
        if ids is not None and isinstance(self._kept[0], Planned):
            self._kept[0] = msgspec.structs.replace(
                self._kept[0], request_ids=list(ids)
            )


def costs_of(
    stream: RecordStream, now: int | None = None, steps: int = STEPS
) -> FittedCosts:
    """Fits what steps cost to a whole recording, of which three numbers a step stay."""
    return FittedCosts(
        (size_of(window.explainer.steps[span.step]), span.end - span.begin)
        for window in windows(stream, None, now, steps)
        for span in _computed(window)
        if span.step is not None
    )


def _computed(window: Window) -> Iterator[Span]:
    """Yields the computing of steps that have ended, and forgets ended requests."""
    steps = window.explainer.steps
    for span in window.spans():
        if span.activity is not Activity.EXECUTE or span.step is None:
            continue
        if steps[span.step].computed is not None:
            yield span
    requests = window.past.requests
    for request_id in [each for each in requests if requests[each].finished]:
        window.past.forget(request_id)
