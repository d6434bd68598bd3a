"""The account of a request: where its time went, in parts that add up to it."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hookline_metrics.slo import Phase
from hookline_recording.schema import Arrived, Finished


class Cause(StrEnum):
    """What a request's time was spent on, or waiting for."""

    HTTP = "http_request"
    PREPARATION = "preparation"
    INBOX = "way_to_engine"
    INTAKE = "intake"
    EMISSION = "emission"
    DELIVERY = "delivery"
    SENDING = "sending"
    CLIENT = "slow_client"
    TOKEN_BUDGET = "token_budget"  # noqa: S105 - none
    BATCH_SLOTS = "batch_slots"
    SHARE = "share"
    KV_BLOCKS = "kv_blocks"
    GATE = "gate"
    ADAPTER_LOADING = "adapter_loading"
    ADAPTER_SLOT = "adapter_slot"
    PIPELINE = "pipeline"
    SLEEP = "sleep"
    STEP = "step_in_flight"
    TRANSFER = "kv_transfer"
    OWN = "own_tokens"
    RECOMPUTED = "recomputed_tokens"
    FIXED = "fixed_cost"
    OTHERS_PROMPTS = "others_prompts"
    OTHERS_TOKENS = "others_tokens"
    LEFT_OUT = "left_out_of_step"
    CPU = "cpu_taken_away"
    COMPILING = "compiling"
    UNEXPLAINED = "unexplained"
    ENGINE = "engine"
    GONE = "engine_gone"
    OVERWRITTEN = "not_recorded"


@dataclass(frozen=True, slots=True)
class Share:
    """A share of a span of a request's time.

    Attributes:
        cause: What it was spent on.
        ns: How much of it.
        request_id: Whose tokens, blocks or places were the cause, if one request's.
        amount: How many of them.
        detail: Name of a gate or an adapter, or a cause of preemption.
    """

    cause: Cause
    ns: int
    request_id: int | None = None
    amount: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A span of a request's time, in one phase and at most one step.

    Attributes:
        begin: Monotonic ns; the end of the piece before.
        end: Monotonic ns.
        phase: Phase of the request; None if that is not known.
        step: Number of the step that the engine computed.
        shares: What it went to; they add up to it.
    """

    begin: int
    end: int
    phase: Phase | None
    step: int | None
    shares: tuple[Share, ...]


@dataclass(slots=True)
class Culprit:
    """A request that others waited for.

    Attributes:
        ns: How long.
        amount: The most tokens, blocks or places that it had in a step.
        step: Number of the step in which it cost most.
        step_ns: What it cost there.
    """

    ns: int = 0
    amount: int = 0
    step: int | None = None
    step_ns: int = 0


@dataclass(slots=True)
class Part:
    """All of a request's time in one phase and of one cause.

    Attributes:
        culprits: Requests that caused it, the worst first.
        worst: Number of the step in which it took longest.
    """

    phase: Phase | None
    cause: Cause
    ns: int
    culprits: dict[int, Culprit]
    detail: str = ""
    worst: int | None = None
    worst_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Where the time of one request went, from its arrival to its end.

    Attributes:
        request_id: Internal id.
        engine_index: Index of its engine.
        facts: As it arrived; None if that was overwritten.
        begin: When the account begins, monotonic ns.
        end: When it ends: the request's end, or the recording's.
        first_token_at: When it had its first token; None if that is not known.
        finished: Its end; None if it runs or waits.
        output_tokens: Tokens that it has got, as far as they are recorded.
        preemptions: How often it was preempted, with (cause, beneficiary).
        pieces: All of the time, in order.
        misses: Objectives that it missed, as its front end saw it; None if that is not
            known.
        is_live: Whether its engine lives: what has not ended goes on.
        is_whole: Whether the recording has all of its life.
        is_fitted: Whether steps are shared out by fitted costs, not by tokens.
    """

    request_id: int
    engine_index: int
    facts: Arrived | None
    begin: int
    end: int
    first_token_at: int | None
    finished: Finished | None
    output_tokens: int
    preemptions: tuple[tuple[str, int | None], ...]
    pieces: tuple[Piece, ...]
    misses: tuple[str, ...] | None
    is_live: bool
    is_whole: bool
    is_fitted: bool

    def pieces_of(self, objective: str | None) -> tuple[Piece, ...]:
        """Returns the time that an objective limits: `ttft`, `tpot`, or all of it."""
        cut = self.first_token_at
        if cut is None or objective not in ("ttft", "tpot"):
            return self.pieces
        is_ttft = objective == "ttft"
        return tuple(each for each in self.pieces if (each.end <= cut) == is_ttft)

    @property
    def latency(self) -> int:
        """From its begin to its end, ns."""
        return self.end - self.begin

    @property
    def ttft(self) -> int | None:
        """From its begin to its first token, ns."""
        if self.first_token_at is None:
            return None
        return self.first_token_at - self.begin

    @property
    def residue(self) -> int:
        """What the parts leave unaccounted for, ns; always 0."""
        return self.latency - sum(part.ns for part in self.parts)

    @property
    def parts(self) -> list[Part]:
        """The time by phase and cause, in the order of phases, the longest first."""
        return parts_of(self.pieces)


_ORDER = {phase: number for number, phase in enumerate((None, *Phase))}


def parts_of(pieces: tuple[Piece, ...]) -> list[Part]:
    """Sums up pieces by phase and cause."""
    parts: dict[tuple[Phase | None, Cause, str], Part] = {}
    for piece, share in _shares(pieces):
        key = (piece.phase, share.cause, share.detail)
        part = parts.get(key)
        if part is None:
            part = Part(piece.phase, share.cause, 0, {}, share.detail)
            parts[key] = part
        part.ns += share.ns
        if share.ns > part.worst_ns:
            part.worst, part.worst_ns = piece.step, share.ns
        if share.request_id is not None:
            _blame(part.culprits.setdefault(share.request_id, Culprit()), piece, share)
    for part in parts.values():
        worst = sorted(part.culprits.items(), key=lambda each: -each[1].ns)
        part.culprits = dict(worst)
    return sorted(parts.values(), key=lambda each: (_ORDER[each.phase], -each.ns))


def _shares(pieces: tuple[Piece, ...]) -> Iterator[tuple[Piece, Share]]:
    for piece in pieces:
        for share in piece.shares:
            if share.ns:
                yield piece, share


def _blame(culprit: Culprit, piece: Piece, share: Share) -> None:
    culprit.ns += share.ns
    culprit.amount = max(culprit.amount, share.amount)
    if share.ns > culprit.step_ns:
        culprit.step, culprit.step_ns = piece.step, share.ns
