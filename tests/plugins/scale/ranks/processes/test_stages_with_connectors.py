"""KV connectors whose worker's sides are in several pipeline stages."""

import random
from pathlib import Path

import pytest

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing import assert_conserved
from hookline_testing.oracle import Oracle

pytestmark = pytest.mark.slow

TOKENS = 8
GREEDY = SamplingParams(max_tokens=TOKENS, temperature=0.0)
TIGHT = {
    "block_size": 4,
    "num_kv_blocks": 40,
    "max_model_len": 96,
    "max_num_batched_tokens": 31,
    "max_num_seqs": 8,
}


def prompts() -> list[list[int]]:
    """More than the KV cache holds, in several chunks each."""
    source = random.Random(0)  # noqa: S311 - the same each time
    return [[source.randrange(320) for _ in range(70)] for _ in range(5)]


def storage(folder: Path) -> dict[str, object]:
    return {
        "kv_connector": "shared_storage",
        "kv_connector_extra_config": {"shared_storage_path": str(folder)},
    }


def engine(folder: Path, connector: dict[str, object], **options: object) -> LLM:
    chosen = {"pipeline_parallel_size": 2, "threads": 1, **TIGHT, **options}
    config = EngineConfig.from_options(
        model=str(folder), kv_transfer_config=connector, **chosen
    )
    return LLM.from_config(config)


def tokens(llm: LLM) -> list[list[int]]:
    outputs = llm.generate(prompts(), GREEDY, use_tqdm=False)
    assert_conserved(llm)
    return [each.outputs[0].token_ids for each in outputs]


def expected(oracle: Oracle) -> list[list[int]]:
    return [oracle.greedy(prompt, TOKENS) for prompt in prompts()]


def folder_size(folder: Path) -> int:
    """Bytes stored under a folder; stages have different numbers of layers."""
    return sum(path.stat().st_size for path in folder.glob("*/*.safetensors"))


def damage(folder: Path) -> None:
    """Cuts off what is stored under a folder."""
    for path in folder.glob("*/*.safetensors"):
        path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.exhaustive
@pytest.mark.parametrize("stage", [0, 1])
def test_a_load_that_fails_in_one_stage_fails_in_all(
    llama: Oracle, tmp_path: Path, stage: int
) -> None:
    """Chunks in flight are dropped, and what was to be loaded is computed."""
    with engine(llama.folder, storage(tmp_path)) as llm:
        assert tokens(llm) == expected(llama)
    sizes = {folder_size(each): each for each in tmp_path.iterdir()}
    damage([sizes[size] for size in sorted(sizes)][stage])

    with engine(llama.folder, storage(tmp_path)) as llm:
        assert tokens(llm) == expected(llama)

        transfers = transfers_of(llm.front_end.engines[0].stats)
        assert transfers.failures["load"]["truncated"] > 0
        assert transfers.recomputed_tokens > 0


@pytest.mark.exhaustive
def test_other_divisions_do_not_read_what_is_stored(
    llama: Oracle, tmp_path: Path
) -> None:
    """Each division has folders of its own, one for each rank."""
    divisions = [(1, 2), (2, 2), (2, 1), (1, 1), (1, 3)]
    for tensor, pipeline in divisions:
        options = {
            "tensor_parallel_size": tensor,
            "pipeline_parallel_size": pipeline,
        }
        with engine(llama.folder, storage(tmp_path), **options) as llm:
            assert tokens(llm) == expected(llama)

            assert llm.front_end.engines[0].stats.totals.prefix_cache.hit_tokens == 0
            assert tokens(llm) == expected(llama)

    assert len(list(tmp_path.iterdir())) == sum(a * b for a, b in divisions)
