"""Draws requests: each on a row of its own, in it its phases and what it waited for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hookline_insight.account import Cause, Piece
from hookline_insight.trace.canvas import NO_FLOWS, Canvas, Flows, Notes, Track
from hookline_insight.trace.excerpts import Window
from hookline_insight.trace.lanes import Lanes
from hookline_insight.wording import Words, safe
from hookline_metrics.slo import Phase
from hookline_recording import RecordedRequest

NOT_RECORDED = "not_recorded"
_IN_BATCH = (Phase.PREFILL, Phase.DECODE)


_Of = tuple[Cause, str]
"""A cause, with the name of a gate."""


@dataclass(slots=True)
class _Drawn:
    """A request as far as it is drawn.

    Attributes:
        lane: Its row.
        until: Until when it is drawn.
        is_open: Whether a phase's slice is.
        phase: That phase; None if it is not known.
        phase_causes: What its time went to, ns.
        cause: The open slice in it; None if there is none.
        causes: What the time of all phases before went to, ns.
    """

    lane: int
    until: int
    is_open: bool = False
    phase: Phase | None = None
    phase_causes: dict[_Of, int] = field(default_factory=dict)
    cause: _Of | None = None
    causes: dict[_Of, int] = field(default_factory=dict)


class RequestRows:
    """The rows of requests and of their transfers, as many as there are at once."""

    def __init__(self, canvas: Canvas, engine: Track, offset: int) -> None:
        """Prepares rows.

        Args:
            canvas: The trace.
            engine: The engine's rows.
            offset: From the monotonic clock to the trace's, ns.
        """
        self._canvas, self._offset = canvas, offset
        self._process = engine.number
        self._lanes = Lanes(canvas, engine, "requests")
        self._transfers = Lanes(canvas, engine, "transfers")
        self._drawn: dict[int, _Drawn] = {}

    def flow(self, request_id: int) -> int:
        """Returns the id of the arrows of a request."""
        return self._process << 48 | request_id & ((1 << 48) - 1)

    def draw(self, window: Window) -> list[int]:
        """Draws what requests did in a window; returns those that have ended."""
        ended: list[int] = []
        begins: list[tuple[int, int, int]] = []
        for request_id in window.past.requests:
            states = list(window.explainer.lives.states(request_id))
            if states and states[0].begin < window.end:
                begins.append((states[0].begin, states[-1].end, request_id))
        for begin, end, request_id in sorted(begins):
            request = window.past.requests[request_id]
            drawn = self._drawn.get(request_id)
            if drawn is None:
                drawn = self._begin(window, request_id, request, begin)
            for piece in window.explainer.pieces(request_id, drawn.until, window.end):
                self._piece(drawn, request_id, piece)
            drawn.until = max(drawn.until, min(end, window.end))
            has_ended = request.finished is not None and end <= window.end
            if has_ended or window.is_last:
                self._end(drawn, request)
                self._draw_transfers(window, request_id, request)
                del self._drawn[request_id]
                ended.append(request_id)
        return ended

    def _begin(
        self, window: Window, request_id: int, request: RecordedRequest, begin: int
    ) -> _Drawn:
        drawn = self._drawn[request_id] = _Drawn(self._lanes.claim(begin), begin)
        facts = request.facts
        notes: dict[str, int | float | str] = {"request_id": request_id}
        if facts is not None:
            notes["prompt_tokens"] = facts.prompt_tokens
            notes["priority"] = facts.priority
            if facts.tenant is not None:
                notes["tenant"] = safe(facts.tenant)
            if facts.response_id:
                notes["response_id"] = safe(facts.response_id)
        self._canvas.enter(
            self._lanes.tracks[drawn.lane],
            begin + self._offset,
            Words(window.explainer).name(request_id),
            notes,
            is_own_name=True,
        )
        return drawn

    def _piece(self, drawn: _Drawn, request_id: int, piece: Piece) -> None:
        """Draws a piece, or adds it to the open slices that are alike."""
        phase = piece.phase
        is_in_batch = phase is Phase.DECODE or phase is Phase.PREFILL
        if not drawn.is_open or phase is not drawn.phase:
            was_in_batch = drawn.phase in _IN_BATCH
            self._end_phase(drawn, piece.begin)
            self._begin_phase(drawn, piece, request_id, was_in_batch=was_in_batch)
        if phase is not None and not is_in_batch:
            self._wait(drawn, piece)
        found = drawn.phase_causes
        for share in piece.shares:
            key = share.cause, share.detail
            found[key] = found.get(key, 0) + share.ns

    def _wait(self, drawn: _Drawn, piece: Piece) -> None:
        """Draws what a request waits for, one slice while that lasts."""
        cause = piece.shares[0].cause, piece.shares[0].detail
        if cause == drawn.cause:
            return
        track, at = self._lanes.tracks[drawn.lane], piece.begin + self._offset
        if drawn.cause is not None:
            self._canvas.leave(track, at)
        self._canvas.enter(track, at, _name(cause))
        drawn.cause = cause

    def _begin_phase(
        self, drawn: _Drawn, piece: Piece, request_id: int, *, was_in_batch: bool
    ) -> None:
        """Begins a phase's slice; an arrow leads to its steps."""
        name = NOT_RECORDED if piece.phase is None else piece.phase.value
        joins = piece.phase in _IN_BATCH and not was_in_batch
        flows = Flows((self.flow(request_id),)) if joins else NO_FLOWS
        track = self._lanes.tracks[drawn.lane]
        self._canvas.enter(track, piece.begin + self._offset, name, flows=flows)
        drawn.is_open, drawn.phase = True, piece.phase

    def _end_phase(self, drawn: _Drawn, until: int) -> None:
        """Ends the open slices within a request's."""
        if not drawn.is_open:
            return
        track, at = self._lanes.tracks[drawn.lane], until + self._offset
        if drawn.cause is not None:
            self._canvas.leave(track, at)
        self._canvas.leave(track, at, _in_ns(drawn.phase_causes))
        for cause, ns in drawn.phase_causes.items():
            drawn.causes[cause] = drawn.causes.get(cause, 0) + ns
        drawn.phase_causes = {}
        drawn.is_open, drawn.cause = False, None

    def _end(self, drawn: _Drawn, request: RecordedRequest) -> None:
        at = drawn.until + self._offset
        self._end_phase(drawn, drawn.until)
        notes = dict(_in_ns(drawn.causes))
        if request.finished is None:
            notes["end"] = "none yet"
        else:
            notes["end"] = request.finished.kind or request.finished.reason
            notes["output_tokens"] = request.finished.output_tokens
        self._canvas.leave(self._lanes.tracks[drawn.lane], at, notes)
        self._lanes.free(drawn.lane, drawn.until)

    def _draw_transfers(
        self, window: Window, request_id: int, request: RecordedRequest
    ) -> None:
        """Draws when KV came from elsewhere."""
        name = Words(window.explainer).name(request_id)
        for scheduled in request.scheduled:
            if scheduled.waited is None:
                continue
            begin, end = scheduled.waited
            lane = self._transfers.claim(begin)
            track = self._transfers.tracks[lane]
            tokens = {"tokens": scheduled.transferred_tokens}
            self._canvas.enter(
                track, begin + self._offset, name, tokens, is_own_name=True
            )
            self._canvas.leave(track, end + self._offset)
            self._transfers.free(lane, end)


def _name(cause: _Of) -> str:
    name, detail = cause
    return f"{name.value}: {safe(detail)}" if detail else name.value


def _in_ns(causes: Mapping[_Of, int]) -> Notes:
    return {f"{_name(cause)} (ns)": ns for cause, ns in causes.items() if ns}
