"""DeepSeek's latents stay latent in the cache, and the output is the same."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ModelConfig,
    SchedulerConfig,
)
from hookline.engine.decoder.layer_shapes import LayerCache
from hookline.engine.worker.paged_cache import PagedCache
from hookline_kv_transfer.kv_memory import layers_of
from hookline_testing.oracle import make_oracle

GREEDY = SamplingParams(temperature=0.0, max_tokens=10)
PROMPTS = [[5, 6, 7], [at % 9 for at in range(40)], [at % 9 for at in range(41)]]
LATENT = LayerCache(4, 1, 40, 32, is_latent=True)


@pytest.mark.parametrize("family", ["deepseek-v2", "deepseek-v3"])
def test_output_is_that_of_transformers(family: str, tmp_path: Path) -> None:
    """In chunks, with the prefix cache, preempted, and with drafts."""
    oracle = make_oracle(family, tmp_path)
    plain = EngineConfig(
        model=ModelConfig(model=str(oracle.folder), max_model_len=64),
        scheduler=SchedulerConfig(max_num_batched_tokens=16, max_num_seqs=4),
        cache=CacheConfig(block_size=4, num_kv_blocks=17),
    )
    drafting = replace(
        plain,
        speculative={"method": "ngram", "num_speculative_tokens": 3},
    )
    expected = [oracle.greedy(prompt, 10) for prompt in PROMPTS]

    for config in (plain, drafting):
        with LLM.from_config(config) as llm:
            for _ in range(2):
                outputs = llm.generate(PROMPTS, GREEDY)
                found = [output.outputs[0].token_ids for output in outputs]
                assert found == expected
            kind = llm.front_end.facts.model.kv_cache_spec_kind
            assert kind == "mla_attention"


def test_values_are_not_stored_apart() -> None:
    """They are a view of the keys; blocks move and travel once."""
    cache = PagedCache([LATENT], 3, 4, torch.float32)
    cache.keys[0].copy_(torch.arange(3 * 4 * 40).view(3, 4, 1, 40))
    before = cache.keys[0].clone()

    cache.move(torch.tensor([1, 2]), torch.tensor([2, 9]))

    assert torch.equal(cache.values[0], cache.keys[0][..., :32])
    assert torch.equal(cache.keys[0][0, 2], before[0, 1])
    assert torch.equal(cache.keys[0][2, 1], before[0, 2])
    assert layers_of(cache)[0].block_bytes == 4 * 40 * 4
    assert LATENT.bytes_per_block(4, torch.float32) == 4 * 40 * 4
