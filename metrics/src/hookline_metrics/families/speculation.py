"""Metrics of speculative decoding: drafts, what came of them, what they cost."""

from collections.abc import Callable, Iterable

from hookline.clock import NANOSECONDS
from hookline.tells import Tells
from hookline_metrics.drafts import MAX_SPECULATIVE_TOKENS, FailureCause, draft_use
from hookline_metrics.metric import Kind, Label, Metric, Point, Stability
from hookline_metrics.readings import LiveReading, Reading, StepReading, one

_NEEDS = (Tells.STEPS, Tells.DRAFTS)


def _positions(step: StepReading) -> Iterable[Point]:
    by_position = step.record.verified.accepted_by_position
    return [((str(at),), count, 1) for at, count in enumerate(by_position)]


def _verify_seconds(step: StepReading) -> Iterable[Point]:
    record = step.record
    if not record.verified.drafts:
        return ()
    return one((record.execute_ns - draft_use(record).draft_ns) / NANOSECONDS)


def _failures(step: StepReading) -> Iterable[Point]:
    failures = draft_use(step.record).proposer_failures
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
        needs=_NEEDS,
    )


def _live(
    name: str,
    unit: str,
    text: str,
    number: Callable[[LiveReading], float | None],
    *,
    is_fleeting: bool = False,
) -> Metric:
    return Metric(
        name=f"hookline_spec_decode_{name}",
        kind=Kind.GAUGE,
        unit=unit,
        help=text,
        value=Reading(LiveReading, lambda live: one(number(live))),
        needs=_NEEDS,
        is_fleeting=is_fleeting,
        stability=Stability.EXPERIMENTAL,
    )


SPECULATION_METRICS: tuple[Metric, ...] = (
    _count(
        "num_drafts",
        "drafts",
        "Number of drafts verified: one per request and step with draft tokens.",
        lambda step: step.record.verified.drafts,
    ),
    _count(
        "num_draft_tokens",
        "tokens",
        "Number of draft tokens verified; drafts that did not fit into a step are not "
        "counted.",
        lambda step: step.record.verified.draft_tokens,
    ),
    _count(
        "num_accepted_tokens",
        "tokens",
        "Number of draft tokens accepted. Acceptance rate: accepted / draft tokens. "
        "Mean acceptance length: 1 + accepted tokens / drafts.",
        lambda step: step.record.verified.accepted_tokens,
    ),
    Metric(
        name="hookline_spec_decode_num_accepted_tokens_per_pos",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Accepted draft tokens by position in the draft, from 0. Divided by the "
        "number of drafts: the acceptance rate per position; divided by the "
        "previous position: the conditional acceptance rate.",
        labels=(Label("position", cap=MAX_SPECULATIVE_TOKENS),),
        value=Reading(StepReading, _positions),
        needs=_NEEDS,
    ),
    _count(
        "draft_seconds",
        "seconds",
        "Time spent in the proposer.",
        lambda step: draft_use(step.record).draft_ns / NANOSECONDS,
    ),
    Metric(
        name="hookline_spec_decode_verify_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="Execution time of steps that verified drafts, without the time spent in "
        "the proposer; includes the time the steps would have taken without "
        "drafts.",
        value=Reading(StepReading, _verify_seconds),
        needs=_NEEDS,
    ),
    Metric(
        name="hookline_spec_decode_proposer_failures",
        kind=Kind.COUNTER,
        unit="failures",
        help="Failures of the proposer by cause: it raised an exception; its result "
        "was malformed, too long or outside the vocabulary; it exceeded its "
        "timeout; or it hung and was disabled. The affected steps ran without "
        "drafts.",
        labels=(Label("cause", tuple(FailureCause)),),
        value=Reading(StepReading, _failures),
        needs=_NEEDS,
    ),
    _live(
        "acceptance_ratio",
        "ratio",
        "Acceptance rate over the last 60 seconds: accepted / draft tokens; 0 without "
        "drafts.",
        lambda live: live.speculation.acceptance,
    ),
    _live(
        "mean_accepted_length",
        "1",
        "Mean acceptance length over the last 60 seconds: 1 + accepted tokens / "
        "drafts, which includes the target model's token; 1 without drafts.",
        lambda live: live.speculation.mean_length,
    ),
    _live(
        "estimated_speedup_ratio",
        "ratio",
        "Estimated speedup from speculative decoding over the decode steps of the "
        "last 60 seconds: time without speculation / time with it, at most the mean "
        "acceptance length. The time without it is the median of the steps of the "
        "last 60 seconds without drafts and with as many requests to the nearest "
        "power of two. Below 1 speculation does not pay. There is no series without "
        "five such steps.",
        lambda live: live.speculation.speedup,
        is_fleeting=True,
    ),
    _live(
        "num_speculative_tokens",
        "tokens",
        "Maximum draft tokens per request and step at present: the configured number "
        "or the one that the engine has chosen; 0 while speculation is off.",
        lambda live: live.speculation.most_drafts,
    ),
)
