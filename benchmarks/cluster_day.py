"""The part `day` of `cluster.py`: engines come and go with the load."""

import math

from hookline_cluster.scaling.policy import ScalingPolicy
from hookline_simulated.config import SimulationConfig
from hookline_testing.cluster.autoscaling import Moment, ScaledCluster
from hookline_testing.cluster.spec import ClusterSpec
from hookline_testing.cluster.traffic import Curve

SECONDS = 1200.0
NIGHT, NOON = 3.0, 24.0
"""Requests per second; one engine can serve about 13."""
STARTUP_SECONDS = 30.0
POLICY = ScalingPolicy(minimum=1, maximum=8, lead_seconds=STARTUP_SECONDS)
STEP_TIMES = SimulationConfig(
    step_seconds=0.04, prefill_token_seconds=0.000125, decode_request_seconds=0.00075
)
"""A slower model than the other parts have, so that a day takes a minute."""


def rate(time: float) -> float:
    """Requests per second at a time of the day."""
    return NIGHT + (NOON - NIGHT) * math.sin(math.pi * time / SECONDS) ** 2


def day() -> list[Moment]:
    """Runs it and prints each change.

    Raises:
        RuntimeError: A request was lost, or the books do not agree.
    """

    def traffic() -> Curve:
        return Curve(rate, 1, most=NOON, seconds=SECONDS)

    requests = sum(1 for _ in traffic().arrivals())
    cluster = ScaledCluster(
        ClusterSpec(engines=POLICY.maximum, step_times=STEP_TIMES, cache_blocks=2048),
        traffic(),
        POLICY,
        startup_seconds=STARTUP_SECONDS,
    )
    result = cluster.serve(requests)
    if result.residue or result.requests != requests:
        raise RuntimeError(f"{requests} requests were sent: {result}")
    last = None
    for moment in cluster.moments:
        if (state := (moment.serving, moment.starting, moment.draining)) != last:
            print(
                f"{moment.at:5.0f} s {rate(moment.at):4.1f}/s engines "
                f"{state[0]} + {state[1]} − {state[2]} saturation "
                f"{moment.saturation:.2f} ttft p99 {1e3 * moment.ttft_p99:.0f} ms"
            )
        last = state
    print(f"{requests} requests, ttft {result.ttft_seconds}")
    return cluster.moments
