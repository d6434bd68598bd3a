"""Metrics of structured outputs: grammars, masks, and what grammars force."""

from collections.abc import Callable, Iterable

from hookline.clock import NANOSECONDS
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.grammars import (
    GrammarCompiling,
    GrammarStats,
    grammar_stats,
    grammar_use,
)
from hookline_metrics.metric import Kind, Label, Metric, Point
from hookline_metrics.readings import (
    Reading,
    StateReading,
    StepReading,
    by_label,
    one,
)

OUTCOMES = ("compiled", "loosened", "refused", "limit", "failed")


def _of_step(
    name: str, unit: str, text: str, read: Callable[[StepReading], Iterable[Point]]
) -> Metric:
    return Metric(
        name=f"hookline_structured_output_{name}",
        kind=Kind.COUNTER,
        unit=unit,
        help=text,
        value=Reading(StepReading, read),
    )


def _ended(stats: GrammarStats) -> dict[str, float]:
    return {word: stats.ended.get(word, 0) for word in OUTCOMES}


STRUCTURED_OUTPUT_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_structured_output_grammars",
        kind=Kind.COUNTER,
        unit="grammars",
        help="Grammars whose compiling has ended, by outcome: compiled, loosened "
        "(without what no backend can follow of functions that are not strict), "
        "refused (wrong or not supported), limit (it takes too much time or memory) or "
        "failed (by a fault of the backend).",
        labels=(Label("outcome", OUTCOMES),),
        value=Reading(
            StateReading, lambda state: by_label(_ended(grammar_stats(state.stats)))
        ),
    ),
    Metric(
        name="hookline_structured_output_compile_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Time that compiling a grammar took, in a process of its own and with any "
        "outcome; waiting for it is not included.",
        buckets=BucketFamily.GRAMMAR_COMPILING,
        value=Reading(GrammarCompiling, lambda compiling: one(compiling.seconds)),
    ),
    Metric(
        name="hookline_structured_output_cache_lookups",
        kind=Kind.COUNTER,
        unit="lookups",
        help="Requests with a grammar, by whether it had been compiled, or refused, "
        "before (hit). Each of n completions is a request.",
        labels=(Label("result", ("hit", "miss")),),
        value=Reading(
            StateReading,
            lambda state: by_label(
                {
                    "hit": grammar_stats(state.stats).hits,
                    "miss": grammar_stats(state.stats).misses,
                }
            ),
        ),
    ),
    Metric(
        name="hookline_structured_output_cache_bytes",
        kind=Kind.GAUGE,
        unit="bytes",
        help="Memory of the compiled grammars that are kept.",
        value=Reading(
            StateReading, lambda state: one(grammar_stats(state.stats).cache_bytes)
        ),
    ),
    _of_step(
        "mask_fill_seconds",
        "seconds",
        "Processor time of filling the masks of allowed tokens; the model runs "
        "meanwhile.",
        lambda step: one(grammar_use(step.record).fill_ns / NANOSECONDS),
    ),
    _of_step(
        "mask_apply_seconds",
        "seconds",
        "Time that applying masks to logits took.",
        lambda step: one(grammar_use(step.record).apply_ns / NANOSECONDS),
    ),
    _of_step(
        "forced_tokens",
        "tokens",
        "Accepted draft tokens that a grammar had forced, such as the names of a "
        "schema's properties; part of the accepted draft tokens.",
        lambda step: one(grammar_use(step.record).forced_tokens),
    ),
)
