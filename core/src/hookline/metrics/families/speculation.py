"""Metrics of speculative decoding: drafts, what came of them, what they cost."""

from collections.abc import Callable, Iterable

from hookline.clock import NANOSECONDS
from hookline.config.speculative import MAX_SPECULATIVE_TOKENS
from hookline.metrics.metric import Kind, Label, Metric, Point, Stability
from hookline.metrics.readings import LiveReading, Reading, StepReading, one
from hookline.spec_decode.failure_cause import FailureCause


def _positions(step: StepReading) -> Iterable[Point]:
    by_position = step.record.accepted_by_position
    return [((str(at),), count, 1) for at, count in enumerate(by_position)]


def _verify_seconds(step: StepReading) -> Iterable[Point]:
    record = step.record
    if not record.drafts:
        return ()
    return one((record.execute_ns - record.draft_ns) / NANOSECONDS)


def _failures(step: StepReading) -> Iterable[Point]:
    failures = step.record.proposer_failures
    return [((cause,), count, 1) for cause, count in failures.items()]


def _count(
    name: str, unit: str, text: str, number: Callable[[StepReading], float]
) -> Metric:
    return Metric(
        name=f"hookline_spec_decode_{name}",
        kind=Kind.COUNTER,
        unit=unit,
        help=text,
        value=Reading(StepReading, lambda step: one(number(step))),
    )


def _live(
    name: str, unit: str, text: str, number: Callable[[LiveReading], float]
) -> Metric:
    return Metric(
        name=f"hookline_spec_decode_{name}",
        kind=Kind.GAUGE,
        unit=unit,
        help=text,
        value=Reading(LiveReading, lambda live: one(number(live))),
        stability=Stability.EXPERIMENTAL,
    )


SPECULATION_METRICS: tuple[Metric, ...] = (
    _count(
        "num_drafts",
        "drafts",
        "Drafts verified: one for each request and step in which it had draft tokens.",
        lambda step: step.record.drafts,
    ),
    _count(
        "num_draft_tokens",
        "tokens",
        "Draft tokens verified. Those that a step had no room for are not counted.",
        lambda step: step.record.draft_tokens,
    ),
    _count(
        "num_accepted_tokens",
        "tokens",
        "Draft tokens that were accepted and became output. Divided by draft tokens it "
        "is the acceptance rate, 1 + it divided by drafts the mean acceptance length.",
        lambda step: step.record.accepted_tokens,
    ),
    Metric(
        name="hookline_spec_decode_num_accepted_tokens_per_pos",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Accepted draft tokens by their position in their draft, from 0. Divided "
        "by drafts it is the share of drafts accepted up to there; divided by the "
        "position before, the share of those that were accepted so far.",
        labels=(Label("position", cap=MAX_SPECULATIVE_TOKENS),),
        value=Reading(StepReading, _positions),
    ),
    _count(
        "draft_seconds",
        "seconds",
        "Time of steps that went into asking the proposer.",
        lambda step: step.record.draft_ns / NANOSECONDS,
    ),
    Metric(
        name="hookline_spec_decode_verify_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="Time of executing the steps that verified drafts, without asking the "
        "proposer; what the steps would have taken anyway is included.",
        value=Reading(StepReading, _verify_seconds),
    ),
    Metric(
        name="hookline_spec_decode_proposer_failures",
        kind=Kind.COUNTER,
        unit="failures",
        help="Failures of the proposer, by cause: it raised; what it returned was "
        "malformed, too many, or out of the vocabulary; it was slower than its "
        "timeout; it hung and is never asked again. Steps went on without drafts.",
        labels=(Label("cause", tuple(FailureCause)),),
        value=Reading(StepReading, _failures),
    ),
    _live(
        "acceptance_ratio",
        "ratio",
        "Accepted / draft tokens over the last 60 seconds; 0 where there were none.",
        lambda live: live.speculation.acceptance,
    ),
    _live(
        "mean_accepted_length",
        "1",
        "1 + accepted tokens / drafts over the last 60 seconds: tokens that a verified "
        "draft brought, the target's own included; 1 where there were none.",
        lambda live: live.speculation.mean_length,
    ),
    _live(
        "estimated_speedup_ratio",
        "ratio",
        "Estimated time without speculation / time with it, over the decode steps of "
        "the last 60 seconds. What a step takes without drafts is taken from recent "
        "steps that had none and as many requests to the power of two. Below 1 "
        "speculation does not pay; 1 where nothing can be said.",
        lambda live: live.speculation.speedup,
    ),
    _live(
        "num_speculative_tokens",
        "tokens",
        "Most draft tokens that a request is asked for in a step at present: the "
        "configured number, or what the engine has chosen; 0 while it has speculation "
        "off, and without speculation.",
        lambda live: live.speculation.most_drafts,
    ),
)
