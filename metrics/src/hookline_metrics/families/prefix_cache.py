"""Metrics of the local prefix cache: lookups, hits and evictions."""

from collections.abc import Iterable

from hookline.clock import NANOSECONDS
from hookline.tells import Tells
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.metric import Kind, Metric, Point
from hookline_metrics.readings import Reading, StateReading, StepReading, one


def _eviction(step: StepReading) -> Iterable[Point]:
    if not step.record.evictions.blocks:
        return ()
    return one(step.record.evictions.nanoseconds / NANOSECONDS)


PREFIX_CACHE_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_prefix_cache_queried_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens looked up in the local prefix cache, counted once per request, "
        "at its first admission. Each of n completions is a request.",
        value=Reading(
            StateReading,
            lambda state: one(state.stats.totals.prefix_cache.queried_tokens),
        ),
        needs=(Tells.CACHE,),
    ),
    Metric(
        name="hookline_prefix_cache_hit_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens found in the local prefix cache, counted once per request, at "
        "its first admission. Each of n completions is a request: all but the first "
        "find their prompt but for its last block.",
        value=Reading(
            StateReading, lambda state: one(state.stats.totals.prefix_cache.hit_tokens)
        ),
        needs=(Tells.CACHE,),
    ),
    Metric(
        name="hookline_prefix_cache_evicted_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens evicted from the local prefix cache to make room for others, in "
        "full KV blocks. A KV connector may keep their KV in a tier.",
        value=Reading(
            StateReading,
            lambda state: one(state.stats.evicted_blocks * state.facts.block_size),
        ),
        needs=(Tells.BLOCKS,),
    ),
    Metric(
        name="hookline_prefix_cache_eviction_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Time of evicting KV blocks from the prefix cache, per step that evicted "
        "any; part of hookline_step_seconds of the phase schedule.",
        buckets=BucketFamily.PREFIX_CACHE_EVICTION,
        value=Reading(StepReading, _eviction),
    ),
)
