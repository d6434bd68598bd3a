"""Makes accounts of requests from a recording."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from hookline_insight.account import Account, Cause, Piece, Share
from hookline_insight.activity import Activities, Activity, Span
from hookline_insight.adapters import AdapterWaits
from hookline_insight.company import most, size_of, weights
from hookline_insight.lives import Lives, State
from hookline_insight.taken_time import taken_times
from hookline_insight.waits import Obstructions, divided
from hookline_metrics.slo import Phase
from hookline_recording import RecordedStep, Recording
from hookline_recording.costs import FittedCosts, apportion


class Explainer:
    """Explains the requests of one recording.

    Attributes:
        recording: The recording.
        until: Where it ends: its last moment, or now if its engine lives, ns.
        is_live: Whether its engine lives.
    """

    def __init__(self, recording: Recording, now: int | None = None) -> None:
        """Reads a recording.

        Args:
            recording: The recording.
            now: The monotonic clock, if the engine lives on this machine, ns.
        """
        self.recording, self.is_live = recording, now is not None
        records = recording.records
        self.begin = records[0].at if records else 0
        last = max((each.at for each in records[-64:]), default=0)
        self.until = last if now is None else max(now, last)

    @property
    def steps(self) -> Sequence[RecordedStep]:
        return self.recording.steps

    @cached_property
    def activities(self) -> Activities:
        """What the engine did at each moment."""
        return Activities(self.steps, self.begin, self.until)

    @cached_property
    def costs(self) -> FittedCosts:
        """What its steps cost."""
        return FittedCosts(
            (size_of(self.steps[span.step]), span.end - span.begin)
            for span in self.activities
            if span.activity is Activity.EXECUTE and span.step is not None
            if self.steps[span.step].computed is not None
        )

    @cached_property
    def obstructions(self) -> Obstructions:
        """Why requests were not admitted."""
        return Obstructions(self.recording)

    @cached_property
    def adapters(self) -> AdapterWaits:
        """What requests waited for that waited for an adapter."""
        return AdapterWaits(self.recording)

    @cached_property
    def lives(self) -> Lives:
        """What its requests were at each moment."""
        return Lives(self.recording, self.until)

    @cached_property
    def _durations(self) -> dict[int, int]:
        return {
            span.step: span.end - span.begin
            for span in self.activities
            if span.activity is Activity.EXECUTE and span.step is not None
        }

    @cached_property
    def _taken(self) -> dict[int, float]:
        return taken_times(self.steps, self._durations, self.costs)

    @cached_property
    def _sleeps(self) -> list[tuple[int, int]]:
        """When the engine slept."""
        found: list[tuple[int, int]] = []
        since: int | None = None
        for state in self.recording.states:
            if state.cause == "sleep" and since is None:
                since = state.at
            elif state.cause == "wake_up" and since is not None:
                found.append((since, state.at))
                since = None
        return found if since is None else [*found, (since, self.until)]

    def find(self, name: str) -> list[int]:
        """Returns the requests that a client or the engine calls so, oldest first."""
        found = self.recording.find_request(name)
        if not found and name.isascii() and name.isdecimal():
            number = int(name)
            found = [number] if number in self.recording.requests else []
        return found

    def account(self, request_id: int) -> Account:
        """Explains a request of the recording.

        Raises:
            KeyError: It has none of that id.
        """
        outline = self.outline(request_id)
        states = self.lives.states(request_id)
        first_token = outline.first_token_at
        pieces: list[Piece] = []
        for state in states:
            cuts = [state.begin, state.end]
            if first_token is not None and state.begin < first_token < state.end:
                cuts.insert(1, first_token)
            for cut in pairwise(cuts):
                is_decoding = first_token is not None and cut[0] >= first_token
                pieces += self._pieces(request_id, state, cut, is_decoding=is_decoding)
        return replace(
            outline, pieces=tuple(each for each in pieces if each.end > each.begin)
        )

    def outline(self, request_id: int) -> Account:
        """Tells of a request what needs no shares of steps: it has no pieces.

        Raises:
            KeyError: The recording has none of that id.
        """
        request = self.recording.requests[request_id]
        states = list(self.lives.states(request_id))
        end = states[-1].end if states else self.until
        return Account(
            request_id=request_id,
            engine_index=self.recording.header.engine_index,
            facts=request.facts,
            begin=states[0].begin if states else end,
            end=end,
            first_token_at=self.lives.first_token_at(request_id),
            finished=request.finished,
            output_tokens=self.lives.output_tokens(request_id),
            preemptions=tuple(
                (each.cause, each.beneficiary_id) for each in request.preempted
            ),
            pieces=(),
            misses=None if request.served is None else tuple(request.served.misses),
            is_live=self.is_live,
            is_whole=request.facts is not None
            and not any(state.name == Cause.OVERWRITTEN for state in states),
            is_fitted=self.costs.is_fitted,
        )

    # -- what its time went to -------------------------------------------------------

    def _pieces(
        self, request_id: int, state: State, cut: tuple[int, int], *, is_decoding: bool
    ) -> Iterator[Piece]:
        begin, end = cut
        if state.name == "run":
            phase = Phase.DECODE if is_decoding else Phase.PREFILL
            for span in self.activities.within(begin, end):
                yield self._run(request_id, span, phase)
        elif state.name in ("queue", "preempted"):
            phase = Phase.QUEUE if state.name == "queue" else Phase.PREEMPTED
            yield from self._waits(request_id, state, cut, phase)
        else:
            cause = Cause(state.name)
            known = None if cause is Cause.OVERWRITTEN else Phase.FRONT_END
            yield Piece(begin, end, known, None, (Share(cause, end - begin),))

    def _waits(
        self, request_id: int, state: State, cut: tuple[int, int], phase: Phase
    ) -> Iterator[Piece]:
        """Yields what a request waited for, as that changed from plan to plan."""
        begin, end = cut
        known = self._known_waits(request_id)
        moments = {begin, end, *self.obstructions.moments(begin, end)}
        moments.update(at for each in known for at in each[:2] if begin < at < end)
        for start, stop in pairwise(sorted(moments)):
            cause, gate = _within(known, start, stop)
            shares: list[Share] | None
            if cause is None:
                shares = self.obstructions.shares(state.since, start, stop)
            elif cause is Cause.ADAPTER_SLOT:
                shares = self.adapters.slot_shares(start, stop, gate)
            else:
                shares = [Share(cause, stop - start, detail=gate)]
            if shares is None:
                for span in self.activities.within(start, stop):
                    yield self._before_plan(span, phase)
            else:
                yield Piece(start, stop, phase, None, tuple(shares))

    def _known_waits(self, request_id: int) -> list[tuple[int, int, Cause, str]]:
        """Returns (begin, end, cause, gate) of waits that no plan tells of."""
        request = self.recording.requests[request_id]
        found = [
            (*scheduled.waited, Cause.TRANSFER, "")
            for scheduled in request.scheduled
            if scheduled.waited is not None
        ]
        for gate in request.gates:
            found += self.adapters.intervals(request_id, gate)
            until = self.until if gate.until is None else gate.until
            found.append((gate.since, until, Cause.GATE, gate.name))
        return found + [(*each, Cause.SLEEP, "") for each in self._sleeps]

    def _before_plan(self, span: Span, phase: Phase) -> Piece:
        """Has a request that has just come wait for what the engine does then."""
        begin, end, activity, index = span
        if activity is Activity.UNKNOWN:
            shares = [Share(Cause.OVERWRITTEN, end - begin)]
        elif activity is Activity.EXECUTE and index is not None:
            step = self.steps[index]
            shares = divided(Cause.STEP, most(step.request_tokens), end - begin)
            return Piece(begin, end, phase, step.number, tuple(shares))
        else:
            shares = [Share(Cause.ENGINE, end - begin)]
        return Piece(begin, end, phase, None, tuple(shares))

    def _run(self, request_id: int, span: Span, phase: Phase) -> Piece:
        """Shares out a span in which a request was in the batch."""
        length = span.end - span.begin
        if span.activity is Activity.UNKNOWN:
            share = Share(Cause.OVERWRITTEN, length)
            return Piece(span.begin, span.end, phase, None, (share,))
        step = None if span.step is None else self.steps[span.step]
        number = None if step is None else step.number
        if span.activity is not Activity.EXECUTE or step is None:
            share = Share(Cause.ENGINE, length)
            return Piece(span.begin, span.end, phase, number, (share,))
        if request_id not in step.request_tokens:
            shares = self._without(request_id, step, length)
            return Piece(span.begin, span.end, phase, number, shares)
        assert span.step is not None
        rows = weights(
            step,
            request_id,
            self.costs,
            self._durations.get(span.step, length),
            self._taken.get(span.step, 0.0),
            is_resumed=self._is_resumed(request_id, step),
        )
        parts = apportion(length, [row.weight for row in rows])
        found = tuple(
            Share(row.cause, ns, row.request_id, row.amount)
            for row, ns in zip(rows, parts, strict=True)
            if ns
        )
        return Piece(span.begin, span.end, phase, number, found)

    def _without(
        self, request_id: int, step: RecordedStep, length: int
    ) -> tuple[Share, ...]:
        """Blames a step that a request of the batch was not in."""
        if not step.request_tokens:
            return (Share(Cause.OVERWRITTEN, length),)
        first = next(iter(self.recording.requests[request_id].steps), 0)
        is_early = step.number < first  # it was in flight when the request came
        cause = Cause.STEP if is_early else Cause.LEFT_OUT
        largest = max(step.request_tokens, key=step.request_tokens.__getitem__)
        return (Share(cause, length, largest, step.request_tokens[largest]),)

    def _is_resumed(self, request_id: int, step: RecordedStep) -> bool:
        """Whether a request computes what it had computed before a preemption."""
        request = self.recording.requests[request_id]
        if step.planned is None:
            return False
        before = [each for each in request.scheduled if each.at <= step.planned.at]
        return bool(before) and before[-1].is_resumed


def _within(
    known: Sequence[tuple[int, int, Cause, str]], begin: int, end: int
) -> tuple[Cause | None, str]:
    """Returns the cause whose interval has all of another."""
    for first, last, cause, gate in known:
        if first <= begin and end <= last:
            return cause, gate
    return None, ""
