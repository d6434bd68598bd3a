"""Service-level objectives of requests, and the phase that caused a miss."""

from enum import StrEnum
from typing import Protocol

import msgspec

from hookline.request import Slo

OBJECTIVES = ("ttft", "tpot", "e2e")


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


def parse_slo(text: str) -> Slo:
    """Reads objectives, as in `ttft=0.5,tpot=0.05,e2e=10`.

    Raises:
        ValueError: An objective is unknown, repeated, or not a positive number.
    """
    limits: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in OBJECTIVES:
            known = ", ".join(OBJECTIVES)
            raise ValueError(f"{part.strip()!r} is not NAME=SECONDS; names: {known}")
        if name in limits:
            raise ValueError(f"{name} is given twice")
        limits[name] = _seconds(name, value)
    return Slo(**limits)


def _seconds(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise ValueError(f"{name}={text} is not a number of seconds") from error
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} must be a positive number of seconds, not {text}")
    return value


class Judged(Protocol):
    """The fields of a finished request that `judge` reads (see `FinishedRequest`)."""

    @property
    def reason(self) -> str: ...
    @property
    def queue_seconds(self) -> float | None: ...
    @property
    def prefill_seconds(self) -> float | None: ...
    @property
    def decode_seconds(self) -> float | None: ...
    @property
    def preempted_seconds(self) -> float: ...
    @property
    def preempted_prefill_seconds(self) -> float: ...
    @property
    def ttft_seconds(self) -> float | None: ...
    @property
    def tpot_seconds(self) -> float | None: ...
    @property
    def e2e_seconds(self) -> float: ...


def judge(slo: Slo, request: Judged) -> tuple[SloMiss, ...] | None:
    """Returns the objectives that the request missed; None if it is not evaluated.

    Rejected requests are not evaluated, and aborted ones only if they had already
    missed an objective. Failed requests miss `success`.
    """
    if request.reason == "rejected":
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
    if request.reason == "error" and not missed:
        slowest = _blamed("e2e", parts)
        missed.append(SloMiss("success", slowest, request.e2e_seconds, 0.0))
    if request.reason == "abort" and not missed:
        return None
    return tuple(missed)


def phases(request: Judged) -> dict[Phase, float]:
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


def over(slo: Slo, base: Slo | None) -> Slo:
    """Returns objectives, with those of `base` where these are None."""
    if base is None:
        return slo
    limits = msgspec.structs.asdict(slo)
    given = {name: each for name, each in limits.items() if each is not None}
    return msgspec.structs.replace(base, **given)
