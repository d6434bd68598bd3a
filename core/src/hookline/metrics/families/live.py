"""Metrics that are made at the moment they are asked for: rates, ages, saturation."""

from collections.abc import Callable

from hookline.metrics.metric import Kind, Label, Metric, Stability
from hookline.metrics.readings import LiveReading, Reading, by_label, one
from hookline.metrics.saturation import PARTS


def _live(
    name: str, unit: str, text: str, number: Callable[[LiveReading], float]
) -> Metric:
    return Metric(
        name=f"hookline_{name}",
        kind=Kind.GAUGE,
        unit=unit,
        help=text,
        value=Reading(LiveReading, lambda reading: one(number(reading))),
    )


LIVE_METRICS: tuple[Metric, ...] = (
    _live(
        "engine_up",
        "1",
        "1 from the engine's start to its end or failure, then 0.",
        lambda live: float(live.is_up),
    ),
    _live(
        "last_step_age_seconds",
        "seconds",
        "Time since a step was last heard of, or since the start before the first one. "
        "An engine that is idle makes no steps.",
        lambda live: live.last_step_age,
    ),
    _live(
        "snapshot_age_seconds",
        "seconds",
        "Time since anything was last heard of the engine, on which all its gauges "
        "here rest; a healthy engine tells its state every second.",
        lambda live: live.snapshot_age,
    ),
    _live(
        "generation_tokens_per_second",
        "1",
        "Tokens generated a second over the last 10 seconds; 0 when nothing runs.",
        lambda live: live.generation_rate,
    ),
    _live(
        "prefix_cache_hit_ratio",
        "ratio",
        "Share of the looked-up tokens that the prefix cache had, over the most recent "
        "1000 requests; 0 before the first one.",
        lambda live: live.hit_rate,
    ),
    _live(
        "saturation_ratio",
        "ratio",
        "How close the engine is to the knee where latency turns up: 0 idle, 1 at the "
        "knee, more while queues grow; at most 10. See docs/saturation.md.",
        lambda live: live.saturation,
    ),
    Metric(
        name="hookline_saturation_part_ratio",
        kind=Kind.GAUGE,
        unit="ratio",
        help="What hookline_saturation_ratio consists of.",
        labels=(Label("part", PARTS),),
        value=Reading(LiveReading, lambda live: by_label(live.saturation_parts)),
        stability=Stability.EXPERIMENTAL,
    ),
    _live(
        "slo_attainment_ratio",
        "ratio",
        "Share of the requests judged in the last 60 seconds that met all their "
        "objectives; 1 where none was judged.",
        lambda live: live.slo_attainment,
    ),
    _live(
        "goodput_requests_per_second",
        "1",
        "Requests a second over the last 60 seconds that met all their objectives; "
        "0 where requests have none.",
        lambda live: live.goodput,
    ),
)
