"""A simulated cluster serves everything, alike for equal seeds, and its books agree."""

import pytest

from hookline_cluster.config import LoadBalancing
from hookline_cluster.scaling.policy import ScalingPolicy
from hookline_simulated.config import SimulationConfig
from hookline_testing.cluster.autoscaling import ScaledCluster
from hookline_testing.cluster.cluster import Cluster
from hookline_testing.cluster.spec import ClusterSpec
from hookline_testing.cluster.tally import Result, jain
from hookline_testing.cluster.traffic import (
    Bursts,
    Conversations,
    Curve,
    Mixed,
    Traffic,
    Uniform,
)
from hookline_testing.essential import essential

ENGINES = 4
SLOW_STEPS = SimulationConfig(
    step_seconds=0.04, prefill_token_seconds=0.000125, decode_request_seconds=0.00075
)
REQUESTS = 80
RATE = 25.0 * ENGINES
TRAFFIC: dict[str, type[Uniform]] = {
    "uniform": Uniform,
    "bursts": Bursts,
    "mixed": Mixed,
    "conversations": Conversations,
}


def make_traffic(name: str, seed: int = 1) -> Traffic:
    if name == "conversations":
        return Conversations(RATE, seed, groups=8)
    return TRAFFIC[name](RATE, seed)


def served(
    name: str, balancing: LoadBalancing = LoadBalancing.SCORE, front_ends: int = 2
) -> Result:
    spec = ClusterSpec(engines=ENGINES, front_ends=front_ends, balancing=balancing)
    return Cluster(spec, make_traffic(name)).serve(REQUESTS)


@pytest.mark.parametrize(
    "name", essential(TRAFFIC, "uniform", "bursts", "conversations")
)
def test_all_requests_are_served_and_counted_once(name: str) -> None:
    """Received is finished and in flight at every sampled moment, and at the end."""
    result = served(name)

    assert result.requests == sum(result.reasons.values()) == REQUESTS
    assert result.residue == 0
    assert result.seconds > 0.5
    assert 0 < result.ttft_seconds["50"] <= result.ttft_seconds["99"]


def test_a_run_is_repeated_by_its_seed() -> None:
    """Also what happens by chance: traffic, and which front end gets a request."""
    assert served("conversations", LoadBalancing.PREFIX) == served(
        "conversations", LoadBalancing.PREFIX
    )


def test_an_answer_is_part_of_the_next_question() -> None:
    """Turns of a conversation repeat what was said; the first one ends with a group."""
    traffic = Conversations(RATE, seed=1, groups=2, prefix_tokens=32)
    first = next(traffic.arrivals())

    second = traffic.following(first, [7, 8], now=5.0)

    assert second is not None
    assert second.prompt[: len(first.prompt) + 2] == [*first.prompt, 7, 8]
    assert second.at > 5.0
    assert second.turns_left == first.turns_left - 1 == traffic.TURNS - 2


def test_bursts_have_ten_times_the_rate() -> None:
    """A second of ten; the mean rate stays as it was."""
    times = []
    for time in Bursts(100.0, seed=2).times():
        if time > 200:
            break
        times.append(time)
    burst = [time for time in times if time % 10 >= 9]

    assert len(times) == pytest.approx(20_000, rel=0.05)
    assert len(burst) / 20 == pytest.approx(
        10 * (len(times) - len(burst)) / 180, rel=0.1
    )


@pytest.mark.parametrize(
    ("values", "index"), [([3, 3, 3], 1.0), ([1, 0, 0, 0], 0.25), ([0, 0], 1.0)]
)
def test_jain(values: list[float], index: float) -> None:
    """Equal shares are fair, however small."""
    assert jain(values) == pytest.approx(index)


@pytest.mark.exhaustive
def test_engines_come_before_latency_turns_up_and_go_drained() -> None:
    """On a ramp and after it; every request is answered, and the books agree."""

    def rate(time: float) -> float:
        return 3 + time / 15 if time < 120 else 2.0

    def traffic() -> Curve:
        return Curve(rate, 1, most=11.0, seconds=240.0)

    requests = sum(1 for _ in traffic().arrivals())
    policy = ScalingPolicy(minimum=1, maximum=3, quiet_seconds=60, lead_seconds=20)
    spec = ClusterSpec(engines=3, step_times=SLOW_STEPS, cache_blocks=2048)
    cluster = ScaledCluster(spec, traffic(), policy, startup_seconds=20)

    result = cluster.serve(requests)

    counts = [each.serving + each.starting for each in cluster.moments]
    assert result.requests == requests
    assert result.residue == 0
    assert max(counts) >= 2
    assert counts[-1] == 1
    assert result.ttft_seconds["99"] < 4 * result.ttft_seconds["50"]
