"""Service-level objectives of requests, and the phase that caused a miss."""

from enum import StrEnum

import msgspec

from hookline.config.readers import OBJECTIVES
from hookline.request import FinishReason
from hookline.stats.finished_request import FinishedRequest


class Phase(StrEnum):
    """Phases of a request; together they make up its end-to-end time."""

    FRONT_END = "front_end"
    QUEUE = "queue"
    PREFILL = "prefill"
    PREEMPTED = "preempted"
    DECODE = "decode"


class SloMiss(msgspec.Struct, frozen=True):
    """A missed objective.

    Attributes:
        objective: `ttft`, `tpot` or `e2e`; `success` for a request that failed.
        phase: The phase that took most of the bounded time.
        seconds: The measured time.
        limit: The objective.
    """

    objective: str
    phase: Phase
    seconds: float
    limit: float


def judge(request: FinishedRequest) -> tuple[SloMiss, ...] | None:
    """Returns the objectives that a request missed; None if it is not evaluated.

    Requests without objectives, rejected ones and those that another instance continues
    are not evaluated, and aborted ones only if they had already missed an objective.
    Failed requests miss `success`.
    """
    slo = request.facts.slo
    if slo is None or request.reason is FinishReason.REJECTED:
        return None
    if request.decodes_elsewhere:
        return None
    parts = phases(request)
    taken = {
        "ttft": request.ttft_seconds,
        "tpot": request.tpot_seconds,
        "e2e": request.e2e_seconds,
    }
    if request.ttft_seconds is None:  # ended before its first token
        taken["ttft"] = request.e2e_seconds
    missed = [
        SloMiss(name, _blamed(name, parts), seconds, limit)
        for name, limit in ((name, getattr(slo, name)) for name in OBJECTIVES)
        if limit is not None and (seconds := taken[name]) is not None
        if seconds > limit
    ]
    if request.reason is FinishReason.ERROR and not missed:
        slowest = _blamed("e2e", parts)
        missed.append(SloMiss("success", slowest, request.e2e_seconds, 0.0))
    if request.reason is FinishReason.ABORT and not missed:
        return None
    return tuple(missed)


def is_judged(request: FinishedRequest) -> bool:
    """Whether a request had objectives and ran long enough to be judged."""
    return judge(request) is not None


def misses_of(request: FinishedRequest) -> tuple[SloMiss, ...]:
    """Returns the objectives that a request missed."""
    return judge(request) or ()


def phases(request: FinishedRequest) -> dict[Phase, float]:
    """Returns the time spent in each phase; the remainder counts as front-end time."""
    stalled = request.preempted_seconds
    before = request.preempted_prefill_seconds
    found = {
        Phase.QUEUE: request.queue_seconds or 0.0,
        Phase.PREFILL: max(0.0, (request.prefill_seconds or 0.0) - before),
        Phase.PREEMPTED: stalled,
        Phase.DECODE: max(0.0, (request.decode_seconds or 0.0) - (stalled - before)),
    }
    rest = max(0.0, request.e2e_seconds - sum(found.values()))
    # The request ended within a phase, whose duration is therefore unknown.
    if request.queue_seconds is None:
        found[Phase.QUEUE] += rest
    elif request.prefill_seconds is None:
        found[Phase.PREFILL] += rest
    else:
        return {Phase.FRONT_END: rest, **found}
    return {Phase.FRONT_END: 0.0, **found}


_OF_OBJECTIVE = {
    "ttft": (Phase.FRONT_END, Phase.QUEUE, Phase.PREFILL, Phase.PREEMPTED),
    "tpot": (Phase.DECODE, Phase.PREEMPTED),
    "e2e": tuple(Phase),
}


def _blamed(objective: str, parts: dict[Phase, float]) -> Phase:
    return max(_OF_OBJECTIVE[objective], key=parts.__getitem__)
