"""What balancing gains, with simulated engines in virtual time."""

import random

import pytest

from hookline_cluster.config import LoadBalancing
from hookline_simulated.config import SimulationConfig
from hookline_testing.cluster.cluster import Cluster
from hookline_testing.cluster.spec import ClusterSpec
from hookline_testing.cluster.tally import Result
from hookline_testing.cluster.traffic import ClosedLoop, Uniform
from hookline_testing.essential import essential

GROUPS, MEMBERS = 64, 8
PREFIX_TOKENS, SUFFIX_TOKENS = 1024, 32
BLOCK = 16
SIMULATION = SimulationConfig(
    step_seconds=0.002, prefill_token_seconds=0.00005, decode_request_seconds=0.0001
)


def groups(count: int, members: int, seed: int = 1) -> list[list[int]]:
    """Prompts of groups with a common prefix each, in random order."""
    source = random.Random(seed)  # noqa: S311 - a test

    def tokens(length: int) -> list[int]:
        return [source.randrange(3, 1000) for _ in range(length)]

    prefixes = [tokens(PREFIX_TOKENS) for _ in range(count)]
    prompts = [
        prefix + tokens(SUFFIX_TOKENS) for prefix in prefixes for _ in range(members)
    ]
    source.shuffle(prompts)
    return prompts


def served(balancing: LoadBalancing, prompts: list[list[int]], room: float) -> Result:
    """Serves them with two engines; each has room for a part of all prefixes."""
    prefixes = int(room * GROUPS) * PREFIX_TOKENS // BLOCK
    running = 16 * (PREFIX_TOKENS + 3 * SUFFIX_TOKENS) // BLOCK
    spec = ClusterSpec(
        engines=2,
        balancing=balancing,
        link_seconds=0.0,
        cache_blocks=prefixes + running,
        max_model_len=4096,
        step_times=SIMULATION,
    )
    traffic = ClosedLoop(prompts, max_tokens=32, concurrency=32)
    return Cluster(spec, traffic).serve(len(prompts))


def test_shared_prefixes_are_served_faster_by_prefix_than_in_turns() -> None:
    """Half of the groups fit each cache: by prefix they are found there."""
    prompts = groups(GROUPS, MEMBERS)

    by_prefix = served(LoadBalancing.PREFIX, prompts, room=0.6)
    in_turns = served(LoadBalancing.ROUND_ROBIN, prompts, room=0.6)

    assert in_turns.seconds / by_prefix.seconds >= 1.5
    assert by_prefix.hit_ratio > 1.3 * in_turns.hit_ratio


def test_one_hot_prefix_uses_both_engines() -> None:
    """All requests share it; none waits for an engine while the other is idle."""
    prompts = groups(1, 256)

    by_prefix = served(LoadBalancing.PREFIX, prompts, room=0.1)
    by_load = served(LoadBalancing.SCORE, prompts, room=0.1)

    assert by_prefix.seconds / by_load.seconds < 1.2


@pytest.mark.parametrize(
    "balancing",
    essential(
        [LoadBalancing.PREFIX, LoadBalancing.SCORE],
        LoadBalancing.PREFIX,
        slow=[LoadBalancing.SCORE],
    ),
)
def test_prompts_without_anything_in_common_are_spread(
    balancing: LoadBalancing,
) -> None:
    """By prefix as well as by load, as evenly as in turns."""
    prompts = groups(256, 1)

    balanced = served(balancing, prompts, room=0.6)
    in_turns = served(LoadBalancing.ROUND_ROBIN, prompts, room=0.6)

    assert balanced.seconds / in_turns.seconds < 1.1


def test_several_front_ends_do_not_crowd_onto_one_engine() -> None:
    """Each learns late what the others have sent, and still they spread requests."""

    def ttft(front_ends: int) -> float:
        spec = ClusterSpec(engines=8, front_ends=front_ends)
        return Cluster(spec, Uniform(8 * 32.0, seed=3)).serve(300).ttft_seconds["90"]

    assert ttft(4) < 2 * ttft(1)
