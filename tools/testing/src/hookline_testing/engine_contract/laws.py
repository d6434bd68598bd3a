"""What holds of all that is told, whatever has happened."""

import math
from collections import Counter
from collections.abc import Iterable

from hookline.payloads import (
    EngineFailed,
    EngineStarted,
    EngineStopped,
    RequestsFinished,
    RequestsPreempted,
    RequestsQueued,
    RequestsScheduled,
    StepFinished,
    TokensGenerated,
)
from hookline.stats.finished_request import FinishedRequest
from hookline.stats.scheduler_stats import Residue
from hookline.tells import Tells
from hookline_testing.engine_contract.scenes import Session

SLACK = 1e-3
"""Seconds by which two clocks of one machine may differ."""
_EVENTS = (RequestsQueued, RequestsScheduled, RequestsPreempted, TokensGenerated)
_FOLLOWS = {
    RequestsQueued: (None,),
    RequestsScheduled: (RequestsQueued, RequestsPreempted),
    TokensGenerated: (RequestsScheduled, TokensGenerated),
    RequestsPreempted: (RequestsScheduled, TokensGenerated),
}
"""What may be told of a request before each event of it."""


def check_order(session: Session) -> None:
    """Engines start before all else and end last; each request is told in order."""
    running, latest = set[int](), dict[int, type]()
    at, ended = dict[int, int](), Counter[int]()
    for hook, payload in session.calls:
        index = getattr(payload, "engine_index", None)
        if isinstance(payload, EngineStarted):
            running.add(payload.facts.engine_index)
        elif isinstance(index, int):
            assert index in running, f"{hook} of engine {index}, which has not started"
        if isinstance(payload, EngineStopped):
            running.remove(payload.engine_index)
        if isinstance(payload, EngineFailed) and payload.is_final:
            running.discard(payload.engine_index)
        if isinstance(payload, _EVENTS):
            for event in payload.events:
                request, before = event.request_id, latest.get(event.request_id)
                assert not ended[request], f"{hook} of {request}, which has ended"
                allowed = _FOLLOWS[type(payload)]
                assert before in allowed, f"{hook} of {request} after {before}"
                assert event.at >= at.get(request, 0), f"{hook} of {request}: its time"
                latest[request], at[request] = type(payload), event.at
                assert request in payload.facts, f"{hook} of {request} without facts"
        if isinstance(payload, RequestsFinished):
            ended.update(each.request_id for each in payload.requests)
    twice = [each for each, count in ended.items() if each and count > 1]
    assert not twice, f"ended more than once: {twice}"


def check_events_told(session: Session) -> None:
    """Each request that has got tokens was queued, and scheduled, before them."""
    queued = _ids(session, RequestsQueued)
    scheduled = _ids(session, RequestsScheduled)
    for request in _measured(session):
        if request.output_tokens:
            name = request.facts.client_id
            assert request.request_id in queued, f"{name}: tokens without QUEUED"
            assert request.request_id in scheduled, f"{name}: tokens without SCHEDULED"


def check_no_events(session: Session) -> None:
    """What is not declared to be told is not told either."""
    told = [hook for hook, payload in session.calls if isinstance(payload, _EVENTS)]
    assert not told, f"told, but not declared: {sorted(set(told))}"


def check_intervals(session: Session) -> None:
    """Parts of a request's time are not negative, and not longer than the whole."""
    for request in _measured(session):
        name, whole = request.facts.client_id, request.e2e_seconds
        parts = {
            "ttft": request.ttft_seconds,
            "queue": request.queue_seconds,
            "prefill": request.prefill_seconds,
            "decode": request.decode_seconds,
            "inference": request.inference_seconds,
            "preempted": request.preempted_seconds,
        }
        for part, seconds in parts.items():
            if seconds is not None:
                assert 0 <= seconds <= whole + SLACK, f"{name}: {part} {seconds}"
        prefill, decode = request.prefill_seconds, request.decode_seconds
        if request.inference_seconds is not None and decode is not None:
            both = (prefill or 0.0) + decode
            assert math.isclose(request.inference_seconds, both, abs_tol=SLACK), name
        if request.tpot_seconds is not None and decode is not None:
            tokens = request.output_tokens - 1
            assert math.isclose(request.tpot_seconds * tokens, decode, abs_tol=SLACK), (
                f"{name}: time per token"
            )


def check_conservation(session: Session) -> None:
    """Of each engine, what it got is what has ended, as all requests have."""
    for engine in sorted(
        {each.facts.engine_index for each in session.payloads(EngineStarted)}
    ):
        reports = session.reports(engine)
        assert reports, f"engine {engine} reports nothing"
        iterations = [each.iteration for each in reports]
        state, totals = reports[-1].scheduler, reports[-1].scheduler.totals
        ended = [
            each
            for iteration in iterations
            for each in iteration.finished
            if each.request_id  # else it has reached no engine
        ]
        heard = [
            each.request_id
            for batch in session.payloads(RequestsFinished)
            for each in batch.requests
            if batch.engine_index == engine and each.request_id
        ]
        summed = sorted(each.request_id for each in ended)
        assert sorted(heard) == summed, f"engine {engine}: ends {heard}, sums {summed}"
        came = totals.received + sum(each.migrated_in for each in iterations)
        left = len(ended) + sum(each.moved for each in iterations)
        assert came == left, f"engine {engine}: {came} came, {left} ended"
        assert state.running + state.waiting + sum(state.held.values()) == 0
        assert totals.residue == Residue(), f"engine {engine}: {totals.residue}"
        if totals.finished:
            counted = Counter(str(each.reason) for each in ended)
            assert counted == Counter(dict(totals.finished)), f"engine {engine}: ends"
        generated = sum(each.generation_tokens for each in iterations)
        known = sum(each.output_tokens for each in ended if each.has_tokens)
        assert generated == known, f"engine {engine}: {generated} of {known} tokens"


def check_steps(session: Session) -> None:
    """Records of steps are numbered and follow one another."""
    steps = list(session.payloads(StepFinished))
    assert steps, "no step is told"
    latest: dict[int, int] = {}
    for step in steps:
        record = step.record
        assert record.step > latest.get(step.engine_index, 0), "the number of a step"
        latest[step.engine_index] = record.step
        times = (record.started_at, record.scheduled_at, record.executed_at)
        assert sorted(times) == list(times), f"step {record.step}: {times}"
        assert record.ended_at >= record.executed_at, f"step {record.step}: its end"


def check_no_steps(session: Session) -> None:
    """What is not declared to be told is not told either."""
    assert not list(session.payloads(StepFinished)), "steps are told, but not declared"


def check_blocks(session: Session) -> None:
    """Blocks are used, cached or free; at the end none is used."""
    for started in session.payloads(EngineStarted):
        reports = session.reports(started.facts.engine_index)
        for report in reports:
            state = report.scheduler
            used, cached = state.kv_blocks_used, state.kv_blocks_cached
            assert min(used, cached) >= 0, f"{used} used, {cached} cached"
            assert used + cached <= state.kv_blocks, f"{used} + {cached} blocks"
        assert reports[-1].scheduler.kv_blocks_used == 0, "blocks are held at the end"


def check_usage(session: Session) -> None:
    """The cache is used by a part of it, and at the end not at all."""
    if Tells.USAGE not in session.tells:
        return
    for started in session.payloads(EngineStarted):
        reports = session.reports(started.facts.engine_index)
        assert all(0 <= each.scheduler.kv_usage <= 1 for each in reports)


def _ids(session: Session, kind: type[RequestsQueued | RequestsScheduled]) -> set[int]:
    batches: Iterable[RequestsQueued | RequestsScheduled] = session.payloads(kind)
    return {event.request_id for batch in batches for event in batch.events}


def _measured(session: Session) -> Iterable[FinishedRequest]:
    return [each for each in session.finished if each.is_measured]
