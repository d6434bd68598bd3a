"""Greedy float32 output equals `transformers` generate, however a model is divided."""

import random
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import FAMILIES, Oracle

OUTPUT_TOKENS = 16
GREEDY = SamplingParams(temperature=0.0, max_tokens=OUTPUT_TOKENS)
TIGHT = {
    "block_size": 4,
    "num_kv_blocks": 26,
    "max_model_len": 96,
    "max_num_batched_tokens": 31,
    "max_num_seqs": 8,
    "threads": 1,
}
"""Prompts come in chunks, requests are preempted, and cached blocks evicted soon."""
DIVISIONS: dict[str, dict[str, object]] = {
    "TP 2": {"tensor_parallel_size": 2},
    "TP 4": {"tensor_parallel_size": 4},
    "PP 2": {"pipeline_parallel_size": 2},
    "TP 2 x PP 2": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2},
    "DP 2": {"data_parallel_size": 2, "load_balancing": "prefix"},
}
WAYS = ("drafts", "offload", "stored")
REFUSED = {("falcon-new", "TP 4"): "cannot divide its 2 KV heads"}


@dataclass(frozen=True)
class Served:
    """What the engines did in two rounds of the same prompts.

    Attributes:
        tokens: Of each round.
        preemptions: Number of preemptions.
        drafted: Number of drafts that were verified.
        loads: Number of loads by a connector.
        hits: Prompt tokens found in the cache, or loaded.
    """

    tokens: list[list[list[int]]]
    preemptions: int
    drafted: int
    loads: int
    hits: int


def prompts() -> list[list[int]]:
    """Ten prompts of 13 to 60 tokens that repeat themselves; pairs have a beginning."""
    source = random.Random(5)  # noqa: S311 - a test
    found = []
    for length in (13, 24, 31, 40, 58):
        part = [source.randrange(320) for _ in range(length // 2)]
        found += [[*part, *part, 7], [*part, *part, 8, 9]]
    return found


CONNECTORS = {"offload": "cpu_offload", "stored": "shared_storage"}


def options(way: str, folder: Path) -> dict[str, object]:
    if way == "drafts":
        return {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}
    extra: dict[str, object] = {"shared_storage_path": str(folder)}
    if way == "offload":
        extra = {"cpu_bytes_to_use": 1 << 24}
    return {
        "kv_transfer_config": {
            "kv_connector": CONNECTORS[way],
            "kv_connector_extra_config": extra,
        }
    }


def served(config: EngineConfig) -> Served:
    with LLM.from_config(config) as llm:
        rounds = [llm.generate(prompts(), GREEDY, use_tqdm=False) for _ in range(2)]
        stats = [each.stats for each in llm.front_end.engines]
        assert_conserved(llm)
    outputs = [each for one in rounds for each in one]
    return Served(
        [[each.outputs[0].token_ids for each in one] for one in rounds],
        preemptions=sum(each.totals.preemptions for each in stats),
        drafted=sum(each.outputs[0].draft_tokens for each in outputs),
        loads=sum(transfers_of(each).loads for each in stats),
        hits=sum(each.cached_tokens or 0 for each in outputs),
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("family", "division", "way"),
    essential(product(sorted(FAMILIES), DIVISIONS, WAYS), ("llama", "PP 2", "offload")),
    indirect=["family"],
)
def test_greedy_output_equals_generate(
    oracle: Oracle, family: str, division: str, way: str, tmp_path: Path
) -> None:
    """Twice over, with chunks, preemption and prefix cache, drafts or a connector."""
    config = EngineConfig.from_options(
        model=str(oracle.folder),
        **TIGHT,
        **DIVISIONS[division],
        **options(way, tmp_path),
    )
    if (refusal := REFUSED.get((family, division))) is not None:
        with pytest.raises(ConfigError, match=refusal):
            LLM.from_config(config)
        return

    found = served(config)

    expected = [oracle.greedy(prompt, OUTPUT_TOKENS) for prompt in prompts()]
    assert found.tokens == [expected, expected]
    assert found.preemptions > 0
    assert found.hits > 0
    assert (found.drafted > 0) is (way == "drafts")
    assert (found.loads > 0) is (way != "drafts")
