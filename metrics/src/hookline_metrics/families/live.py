"""Metrics computed at scrape time: rates, ages and saturation."""

from collections.abc import Callable

from hookline.payloads import EngineStarted
from hookline.tells import Tells
from hookline_metrics.front_end_parts import EngineHealth
from hookline_metrics.metric import Kind, Label, Metric, Needs, Stability
from hookline_metrics.readings import LiveReading, Reading, by_label, one
from hookline_metrics.saturation import PARTS
from hookline_metrics.saturation.bound import BOUNDS


def _live(
    name: str,
    unit: str,
    text: str,
    number: Callable[[LiveReading], float],
    *,
    needs: Needs | None = None,
) -> Metric:
    return Metric(
        name=f"hookline_{name}",
        kind=Kind.GAUGE,
        unit=unit,
        help=text,
        value=Reading(LiveReading, lambda reading: one(number(reading))),
        needs=needs,
    )


LIVE_METRICS: tuple[Metric, ...] = (
    _live(
        "engine_up",
        "1",
        "1 while the engine is up, 0 while it is stalled and after it has stopped or "
        "failed.",
        lambda live: float(live.is_up),
        needs=(),
    ),
    _live(
        "engine_stalled",
        "1",
        "1 while the engine's process is stopped, hangs, or runs no step although "
        "requests wait; otherwise 0. See --step-timeout.",
        lambda live: float(live.stall_seconds is not None),
    ),
    _live(
        "engine_stall_seconds",
        "seconds",
        "How long the engine has been stalled; 0 while it works.",
        lambda live: live.stall_seconds or 0.0,
    ),
    Metric(
        name="hookline_engine_restarts",
        kind=Kind.COUNTER,
        unit="restarts",
        help="Number of times that the engine's process was replaced, by what ended "
        "it: an exception (failed), a fault of its process (crashed), the end of its "
        "process from outside (exited), or by the kernel because memory ran out "
        "(memory), a stall (stalled), a failing start (start), the loss of the "
        "connection to its machine (lost) or the end of another engine that shares its "
        "experts (peer).",
        labels=(
            Label(
                "reason",
                (
                    *("failed", "crashed", "exited", "memory", "stalled", "start"),
                    *("lost", "peer"),
                ),
            ),
        ),
        value=Reading(
            EngineStarted, lambda started: by_label({started.restart_cause: 1.0})
        ),
    ),
    Metric(
        name="hookline_engine_stalls",
        kind=Kind.COUNTER,
        unit="stalls",
        help="Number of times that the engine stalled.",
        value=Reading(EngineHealth, lambda _: one(1.0)),
    ),
    _live(
        "last_step_age_seconds",
        "seconds",
        "Time since the engine's most recent step, or since its start if it has run "
        "none. An idle engine runs no steps.",
        lambda live: live.last_step_age,
    ),
    _live(
        "snapshot_age_seconds",
        "seconds",
        "Time since the engine's most recent state report, which all of its gauges "
        "are based on; a healthy engine reports every second.",
        lambda live: live.snapshot_age,
        needs=(),
    ),
    _live(
        "generation_tokens_per_second",
        "1",
        "Generation throughput over the last 10 seconds, in tokens per second.",
        lambda live: live.generation_rate,
        needs=(),
    ),
    _live(
        "prefix_cache_hit_ratio",
        "ratio",
        "Prefix-cache hit rate in tokens over the most recent 1000 requests, 0 to 1; "
        "0 before the first request. Each of n completions is a request.",
        lambda live: live.hit_rate,
        needs=(Tells.CACHE,),
    ),
    _live(
        "saturation_ratio",
        "ratio",
        "Load relative to the point where queues start to grow and latency rises: 0 "
        "is idle, 1 is that point, at most 10. See docs/saturation.md.",
        lambda live: live.saturation,
    ),
    Metric(
        name="hookline_saturation_part_ratio",
        kind=Kind.GAUGE,
        unit="ratio",
        help="Components of hookline_saturation_ratio.",
        labels=(Label("part", PARTS),),
        value=Reading(LiveReading, lambda live: by_label(live.saturation_parts)),
        stability=Stability.EXPERIMENTAL,
    ),
    Metric(
        name="hookline_bound_ratio",
        kind=Kind.GAUGE,
        unit="ratio",
        help="Share of the last seconds in which each limit bound the engine: what "
        "kept waiting requests out of its steps, or what steps that serve all spend "
        "their time on; while it is idle, the front end as far as that had a request "
        "for it, otherwise client.",
        labels=(Label("limit", BOUNDS),),
        value=Reading(LiveReading, lambda live: by_label(live.bounds)),
        stability=Stability.EXPERIMENTAL,
    ),
    _live(
        "slo_attainment_ratio",
        "ratio",
        "Fraction of requests evaluated in the last 60 seconds that met all of their "
        "objectives; 1 if none was evaluated.",
        lambda live: live.slo_attainment,
        needs=(Tells.REQUESTS,),
    ),
    _live(
        "goodput_requests_per_second",
        "1",
        "Requests per second over the last 60 seconds that met all of their "
        "objectives; 0 if no objectives are set.",
        lambda live: live.goodput,
        needs=(Tells.REQUESTS,),
    ),
)
