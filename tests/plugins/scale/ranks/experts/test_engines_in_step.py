"""Engines that share experts give the output of `transformers`, in all modes.

Each engine has its own scheduler and is driven by its own thread, as its process would.
"""

import random
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from hookline.events import StepOutput
from hookline.stats.scheduler_stats import Residue
from hookline_metrics.expert_stats import expert_stats
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle, make_oracle
from hookline_testing.sharing_engines import run_together, sharing_engines

COUNT = 12
TORCH: dict[str, Any] = {"kernels": "torch", "num_kv_blocks": 128}
MODES: Mapping[str, dict[str, Any]] = {
    "batched": TORCH,
    "chunked": TORCH | {"max_num_batched_tokens": 7, "max_num_seqs": 4},
    "preempted": TORCH
    | {
        "block_size": 4,
        "num_kv_blocks": 24,
        "max_model_len": 96,
        "max_num_batched_tokens": 31,
        "max_num_seqs": 8,
        "async_scheduling": True,
    },
    "drafted": TORCH
    | {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
    "kernels": {"num_kv_blocks": 128},
}
FAMILIES = ("deepseek-v2", "gpt-oss", "mixtral", "qwen3-moe")


def prompts() -> list[list[int]]:
    """Eight prompts of 1 to 60 tokens; the last ones have a common beginning."""
    source = random.Random(3)  # noqa: S311 - a test
    common = [source.randrange(320) for _ in range(20)]
    alone = [
        [source.randrange(320) for _ in range(length)] for length in (1, 15, 17, 33, 60)
    ]
    return [*alone, [*common, *common, 5], [*common, *common, 8], [*common, 9]]


@pytest.fixture(scope="module")
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Oracle:
    folder: Path = tmp_path_factory.mktemp(request.param)
    return make_oracle(request.param, folder)


@pytest.mark.parametrize(
    ("family", "mode", "engines"),
    essential(
        product(FAMILIES, MODES, [2, 3]),
        ("gpt-oss", "drafted", 2),
        ("qwen3-moe", "batched", 3),
        slow=[
            ("deepseek-v2", "chunked", 2),
            ("mixtral", "preempted", 2),
            ("qwen3-moe", "kernels", 2),
        ],
    ),
    indirect=["family"],
)
def test_greedy_output_equals_generate(family: Oracle, mode: str, engines: int) -> None:
    """Twice over; most prompts are the first engine's, and the last one has none."""
    given = prompts()
    expected = [family.greedy(prompt, COUNT) for prompt in given]
    of = [0 if at < 5 else at % (engines - 1) for at in range(len(given))]

    with sharing_engines(family.folder, engines, **MODES[mode]) as driven:
        for _ in range(2):
            ids = [
                driven[at].add(prompt, COUNT)
                for at, prompt in zip(of, given, strict=True)
            ]
            run_together(driven)
            found = [
                driven[at].tokens[request] for at, request in zip(of, ids, strict=True)
            ]
            assert found == expected
        stats = [each.stats for each in driven]

    assert all(each.totals.residue == Residue() for each in stats)
    assert expert_stats(stats[-1]).dummy_steps > 0
    assert stats[-1].totals.computed_tokens == 0
    assert (stats[0].totals.preemptions > 0) is (mode == "preempted")
    hits = sum(each.totals.prefix_cache.hit_tokens for each in stats)
    assert hits > 0 or mode == "preempted"  # which evicts most of them


@pytest.mark.parametrize("family", ["qwen3-moe"], indirect=True)
def test_all_pairs_are_counted_where_they_are_computed(family: Oracle) -> None:
    """Two experts of each layer for each token, whichever engine has it."""
    with sharing_engines(family.folder, 2, **TORCH) as driven:
        driven[0].add(prompts()[3], COUNT)
        run_together(driven)
        stats = [each.stats for each in driven]

    tokens = [sum(expert_stats(each).tokens) for each in stats]
    assert sum(tokens) == 2 * 3 * stats[0].totals.computed_tokens
    assert min(tokens) > 0
    assert (
        expert_stats(stats[0]).busiest_tokens == expert_stats(stats[1]).busiest_tokens
    )
    assert max(tokens) <= expert_stats(stats[0]).busiest_tokens <= sum(tokens)
    assert expert_stats(stats[0]).dummy_steps == expert_stats(stats[1]).wait_ns == 0
    assert expert_stats(stats[1]).dummy_steps > 0


@pytest.mark.parametrize("family", ["qwen3-moe"], indirect=True)
def test_idle_engines_compute_nothing(family: Oracle) -> None:
    """Nor does a dummy step come out as a step, or as any other news."""
    with sharing_engines(family.folder, 2, **TORCH) as driven:
        driven[0].add([1, 2, 3], COUNT)
        run_together(driven)
        dummies = expert_stats(driven[1].stats).dummy_steps
        assert not any(
            sharing.assist_others()
            for each in driven
            if (sharing := each.core.sharing) is not None
        )
        output: StepOutput = driven[1].core.report("test")

    assert dummies == COUNT
    assert output.record is None
    assert expert_stats(output.stats).dummy_steps == dummies
