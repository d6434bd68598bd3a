"""Service-level objectives of requests: what was promised, and which phase broke it."""

from enum import StrEnum
from typing import Protocol

import msgspec

OBJECTIVES = ("ttft", "tpot", "e2e")


class Phase(StrEnum):
    """Where a request's time went; together they are its end-to-end time."""

    FRONT_END = "front_end"
    QUEUE = "queue"
    PREFILL = "prefill"
    PREEMPTED = "preempted"
    DECODE = "decode"


class Slo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Most seconds that each may take; None promises nothing.

    Attributes:
        ttft: Time to first token.
        tpot: Time per output token.
        e2e: End to end.
    """

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None

    @classmethod
    def parse(cls, text: str) -> "Slo":
        """Reads `ttft=0.5,tpot=0.05,e2e=10`.

        Raises:
            ValueError: An objective is unknown or twice there, or no positive number.
        """
        limits: dict[str, float] = {}
        for part in text.split(","):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals or name not in OBJECTIVES:
                known = ", ".join(OBJECTIVES)
                raise ValueError(
                    f"{part.strip()!r} is not NAME=SECONDS; names: {known}"
                )
            if name in limits:
                raise ValueError(f"{name} is given twice")
            limits[name] = _seconds(name, value)
        return cls(**limits)

    def over(self, base: "Slo | None") -> "Slo":
        """These objectives, and those of `base` where these promise nothing."""
        if base is None:
            return self
        return Slo(
            ttft=base.ttft if self.ttft is None else self.ttft,
            tpot=base.tpot if self.tpot is None else self.tpot,
            e2e=base.e2e if self.e2e is None else self.e2e,
        )


class SloMiss(msgspec.Struct, frozen=True):
    """An objective that was missed.

    Attributes:
        objective: `ttft`, `tpot` or `e2e`; `success` for a request that failed.
        phase: The phase that took most of the time that the objective bounds.
        seconds: What it took.
        limit: What was promised.
    """

    objective: str
    phase: Phase
    seconds: float
    limit: float


def _seconds(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise ValueError(f"{name}={text} is not a number of seconds") from error
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} must be above 0 seconds and finite, not {text}")
    return value


class Judged(Protocol):
    """What is known of a request that has ended (see `FinishedRequest`)."""

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
    """The objectives that the request missed; None where it cannot be judged.

    A rejected request was never promised anything. One that its client abandoned counts
    only if it had missed an objective by then. One that failed has missed `success`.
    """
    if request.reason == "rejected":
        return None
    parts = phases(request)
    taken = {
        "ttft": request.ttft_seconds,
        "tpot": request.tpot_seconds,
        "e2e": request.e2e_seconds,
    }
    if request.ttft_seconds is None:  # it waited so long in vain
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
    """Where the request's time went; what cannot be told apart is the front end's."""
    stalled = request.preempted_seconds
    before = request.preempted_prefill_seconds
    found = {
        Phase.QUEUE: request.queue_seconds or 0.0,
        Phase.PREFILL: max(0.0, (request.prefill_seconds or 0.0) - before),
        Phase.PREEMPTED: stalled,
        Phase.DECODE: max(0.0, (request.decode_seconds or 0.0) - (stalled - before)),
    }
    rest = max(0.0, request.e2e_seconds - sum(found.values()))
    # It ended in the middle of a phase, which has no length of its own then.
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
