"""What balancing gains, with simulated engines in virtual time."""

import random

import pytest

from hookline.config import CacheConfig, LoadBalancing, SimulationConfig
from hookline_testing.balanced_cores import BalancedCores

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


def served(
    balancing: LoadBalancing, prompts: list[list[int]], room: float
) -> tuple[float, int]:
    """Seconds and cached tokens of two engines; each has room for a part of all."""
    prefixes = int(room * GROUPS) * PREFIX_TOKENS // BLOCK
    running = 16 * (PREFIX_TOKENS + 3 * SUFFIX_TOKENS) // BLOCK
    cores = BalancedCores(
        balancing,
        engines=2,
        cache=CacheConfig(num_kv_blocks=prefixes + running),
        simulation=SIMULATION,
    )
    seconds = cores.serve(prompts, max_tokens=32, concurrency=32)
    return seconds, cores.cached_tokens


def test_shared_prefixes_are_served_faster_by_prefix_than_in_turns() -> None:
    """Half of the groups fit each cache: by prefix they are found there."""
    prompts = groups(GROUPS, MEMBERS)

    by_prefix, cached = served(LoadBalancing.PREFIX, prompts, room=0.6)
    in_turns, cached_in_turns = served(LoadBalancing.ROUND_ROBIN, prompts, room=0.6)

    assert in_turns / by_prefix >= 1.5
    assert cached > 1.3 * cached_in_turns


def test_one_hot_prefix_uses_both_engines() -> None:
    """All requests share it; none waits for an engine while the other is idle."""
    prompts = groups(1, 256)

    by_prefix, _ = served(LoadBalancing.PREFIX, prompts, room=0.1)
    by_load, _ = served(LoadBalancing.SCORE, prompts, room=0.1)

    assert by_prefix / by_load < 1.2


@pytest.mark.parametrize("balancing", [LoadBalancing.PREFIX, LoadBalancing.SCORE])
def test_prompts_without_anything_in_common_are_spread(
    balancing: LoadBalancing,
) -> None:
    """By prefix as well as by load, as evenly as in turns."""
    prompts = groups(256, 1)

    seconds, _ = served(balancing, prompts, room=0.6)
    in_turns, _ = served(LoadBalancing.ROUND_ROBIN, prompts, room=0.6)

    assert seconds / in_turns < 1.1
